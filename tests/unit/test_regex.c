/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions: what matches whole, what is no expression, and that time is linear. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/regex.h"

static weir_string text(const char *s) {
    return (weir_string){s, (int64_t)strlen(s)};
}

static int full(const char *pattern, const char *s) {
    const char *reason;
    weir_regex *r = weir_regex_new(text(pattern), &reason);
    cr_assert(r, "%s: %s", pattern, reason);
    int yes = weir_regex_full(r, text(s));
    weir_regex_free(r);
    return yes;
}

static const struct {
    const char *pattern, *yes, *no; /* texts with ' ' between; '_' is the empty one */
} table[] = {
    {"", "_", "a"},
    {"abc", "abc", "ab abcd _"},
    {"a|bc|d", "a bc d", "b abc _"},
    {"(a|b)*c", "c abac", "_ ab"},
    {"a+b?", "a aab", "b _ abb"},
    {"a{2}", "aa", "a aaa"},
    {"a{1,3}", "a aa aaa", "_ aaaa"},
    {"a{0,2}b", "b ab aab", "aaab"},
    {"(ab){2,}", "abab ababab", "ab aba"},
    {"a{0}b", "b", "ab"},
    {"x{,3}", "x{,3}", "x"},
    {"[a-c]+", "abc", "abd _"},
    {"[^a-c]+", "xyz", "xa"},
    {"[]a]+", "]a", "b"},
    {"[a\\]-]+", "a]-", "b"},
    {"[[:digit:][:upper:]]+", "A1", "a"},
    {"[^[:alpha:]]", "1", "a"},
    {"[[:^alpha:]]", "1", "a"},
    {"\\d+\\.\\d*", "1. 12.5", ".5 1x5"},
    {"\\w+\\W\\w+", "a-b", "ab"},
    {"[\\w.-]+", "a.b-c_9", "a@"},
    {"[^\\d]", "a", "1"},
    {"[\\D]", "a", "1"},
    {"\\bab\\b", "ab", "abc"},
    {"a\\Bb", "ab", "a-b"},
    {"^ab$", "ab", "abc"},
    {"a^b", "", "ab"},
    {"(?i)aBc", "ABC abc", "abd"},
    {"(?i:a)b", "Ab ab", "aB"},
    {"(?P<n>a)(?:b)", "ab", "a"},
    {"a.c", "abc", "ac"},
    {"\\x41\\x{42}", "AB", "ab"},
    {"\\Qa+b\\E+", "a+b a+bb", "aab"},
    {"a*?b+?", "b aabb", "a"},
    {"(a*)*", "_ aaa", "b"},
    {"(a|)+b", "b aab", "a"},
    {"(\\W|^)[\\w.\\-]{0,25}@(yahoo|gmail)\\.com(\\W|$)", "me@gmail.com @yahoo.com", "me@x.com"},
};

static void each(const char *pattern, const char *list, int want) {
    char copy[256];
    snprintf(copy, sizeof copy, "%s", list);
    for (char *s = strtok(copy, " "); s; s = strtok(NULL, " "))
        cr_expect_eq(full(pattern, strcmp(s, "_") ? s : ""), want, "%s on \"%s\"", pattern, s);
}

Test(regex, matches_whole_texts) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        each(table[i].pattern, table[i].yes, 1);
        each(table[i].pattern, table[i].no, 0);
    }
    cr_expect(full(".", "\xc3\xa9"));
    cr_expect(full("[\xc3\xa0-\xc3\xbf]{2}", "\xc3\xa9\xc3\xa8"));
    cr_expect(full("..", "\xff\xfe"));
    cr_expect_not(full(".", "\n"));
    cr_expect(full("(?s).", "\n"));
    cr_expect(full("(?m)a$\n^b", "a\nb"));
}

Test(regex, refuses_what_is_none) {
    static const char *const bad[] = {"(",    ")",       "a)",  "[",        "[a",
                                      "*",    "a{2000}", "\\",  "[b-a]",    "\\1",
                                      "(?<a", "(?=a)",   "\\q", "[[:no:]]", "a{3,2}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *reason = NULL;
        weir_regex *r = weir_regex_new(text(bad[i]), &reason);
        cr_expect_null(r, "%s", bad[i]);
        cr_expect_not_null(reason);
        weir_regex_free(r);
    }
    const char *reason;
    cr_expect_null(weir_regex_new(text("((((a{1000}){1000}){1000}){1000})"), &reason));
    char *deep = malloc(100001);
    memset(deep, '(', 100000);
    deep[100000] = '\0';
    cr_expect_null(weir_regex_new(text(deep), &reason));
    free(deep);
}

/* A backtracking matcher takes 2^n steps on these. */
Test(regex, takes_linear_time, .timeout = 20) {
    char s[30001];
    memset(s, 'a', 30000);
    s[30000] = '\0';
    cr_expect_not(full("(a*)*b", s));
    cr_expect_not(full("(a|a)*b", s));
    cr_expect(full("(a?){30}a{30}", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
    char many[20001];
    for (int i = 0; i < 20000; i += 2) many[i] = 'b', many[i + 1] = '|';
    many[19999] = 'a';
    many[20000] = '\0';
    cr_expect(full(many, "ba"));
}

/* Letters of one to four bytes, and bytes that are none, come out as they went in. */
Test(regex, letters_are_put_back) {
    const char *words[] = {"az", "\xc3\xbc\xc3\x9c", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                           "\xff\xc3"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char made[32], *put = made;
        const char *at = words[i], *end = at + strlen(at);
        while (at < end) put = weir_utf8_put(put, weir_utf8_next(&at, end));
        cr_expect(put - made == (long)strlen(words[i]) && !memcmp(made, words[i], strlen(words[i])),
                  "%s", words[i]);
    }
}
