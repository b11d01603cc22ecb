/* SPDX-License-Identifier: Apache-2.0 */
/* Every call of LIBRARY_CALLS has the parameters of the library's header: its handles and
 * enumerations, of which those without negative numbers are unsigned, for what stands for them in
 * ours (macros, defined around this). A pointer of another type would not be made from the
 * function's. LIBRARY_TEXT: what names an error. */
#define Number unsigned
struct Header {
#define CALL(member, symbol, parameters) unsigned(*member) parameters;
    LIBRARY_CALLS
#undef CALL
    const char *(*text)(unsigned error);
};
static const struct Header header __attribute__((unused)) = {
#define CALL(member, symbol, parameters) .member = symbol,
    LIBRARY_CALLS
#undef CALL
        .text = LIBRARY_TEXT,
};
#undef Number
