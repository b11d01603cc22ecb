/* SPDX-License-Identifier: Apache-2.0 */
/* What parsers and verifiers refuse: the line and the words of each message; and that the message
 * of a verifier stands in the printed text at the guilty line. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "ir/file.h"

typedef struct Job {
    const char *text;
    Ctx *ctx;
    Code code;
    int line;
    char message[4096];
} Job;

static void collect(void *user, const Diag *diag) {
    Job *job = user;
    job->code = diag->code;
    job->line = diag->where.line;
    snprintf(job->message, sizeof job->message, "%s", diag->message);
}

static void parse_and_verify(void *user) {
    Job *job = user;
    Arena *arena = arena_new(job->ctx);
    ir_file_verify(ir_file_parse(arena, NULL, job->text));
    arena_free(arena);
}

static bool good(Job *job) {
    job->ctx = ctx_new(collect, job);
    bool ok = ctx_try(job->ctx, parse_and_verify, job);
    ctx_free(job->ctx);
    return ok;
}

typedef struct Bad {
    const char *text, *message;
    int line; /* of a syntax error */
} Bad;

static void all_refused(const Bad *bad, size_t n, Code code) {
    for (size_t i = 0; i < n; i++) {
        Job job = {.text = bad[i].text};
        cr_expect(!good(&job), "accepted:\n%s", bad[i].text);
        cr_expect(strstr(job.message, bad[i].message) != NULL, "\"%s\" is not in \"%s\"",
                  bad[i].message, job.message);
        cr_expect_eq(job.code, code, "%s", job.message);
        if (bad[i].line) cr_expect_eq(job.line, bad[i].line, "line %d: %s", job.line, job.message);
    }
}
#define REFUSED(list, code) all_refused(list, sizeof list / sizeof list[0], code)

#define FLOW(rest)                                                                                 \
    "flow f (N in 1..) {\n  in x : f32[N,4]\n  in k : i64[N] in 0..9\n  out y : f32[N,4]\n" rest   \
    "\n}\n"
#define COPY "map c [i:N, j:4] { x[i,j] -> y[i,j] }\n"

Test(text, syntax) {
    static const Bad bad[] = {
        {"", "", 0},
        {"flow", "expected the flow's name, not the end", 1},
        {"flow f {", "expected a container", 1},
        {"flow f { in x : f32[4]\n in x : f32[3] }", "\"x\" is declared twice", 2},
        {"flow f { in x : g32[4] }", "expected an element type", 1},
        {"flow f { in x : f32[M] }", "no symbol \"M\" is known here", 1},
        {"flow f (N in 1.., N in 2..) {}", "declared twice", 1},
        {"flow f (N in 99999999999999999999..) {}", "beyond 64 bits", 1},
        {"flow f { literal g : f32[2] = { 1 } }", "2 elements expected", 1},
        {"flow f { literal g : i8[1] = { 300 } }", "expected a literal of type i8", 1},
        {"flow f { literal g : i8[999999] = { 1 } }", "999999 elements expected", 1},
        {"flow f { in x : f32[4] layout [i] -> (i, 0) of [4] }", "rank 2 in a box of rank 1", 1},
        {"flow f { in x : f32[2] ? }", "expected a container", 1},
        {"flow f { in \"x\ny\" : f32[2] }", "does not end on its line", 1},
        {"flow f { in \"\\q\" : f32[2] }", "unknown escape", 1},
        {"flow f { in x : f32[\x01] }", "belongs to no token", 1},
        {FLOW("map c [i:N, i:4] { }"), "dim \"i\" is declared twice", 5},
        {FLOW("map c [i:N] { z[i] -> y[i,0] }"), "nothing named \"z\"", 5},
        {FLOW("map c [i:N] {\n x[i] -> y[i,0] }"), "\"x\" has 2 dims, not 1", 6},
        {FLOW("map c [i:N] { x[i,q] -> y[i,0] }"), "no symbol \"q\"", 5},
        {FLOW("map c [i:N] { a <- x[i,0]\n a = 1 }"), "literals only", 6},
        {FLOW("map c [i:N] { a <- x[i,0]\n a <- x[i,1] }"), "\"a\" is defined twice", 6},
        {FLOW("map c [i:N] { i <- x[i,0] }"), "\"i\" is a dim here", 5},
        {FLOW("map c [i:N] { a <- x[i,0]\n x[a,0] -> y[i,0] }"), "only integers index", 6},
        {FLOW("map c [i:N] { x[i,0] + k[i] -> y[i,0] }"), "operands of types f32 and i64", 5},
        {FLOW("map c [i:N] { k[i] -> y[i,0] }"), "a value of type i64 where f32 is wanted", 5},
        {FLOW("map c [i:N] { x[i,0] -> y[i,0] summ:f32 }"), "no combine \"summ\" takes f32", 5},
        {FLOW("map c [i:N] { (x[i,0], 1) -> y[i,0] }"), "2 values for 1 targets", 5},
        {FLOW("map c [i:N | i] { }"), "expected a comparison", 5},
        {FLOW("call q = nothing(x) -> y"), "no call is named so", 5},
        {FLOW("call q = nonzero(x) -> y defines K"), "expected a symbol of the flow", 5},
        {FLOW(COPY "kernel k = d { }"), "no map of that name", 6},
        {FLOW(COPY "kernel k = c { tilt i:4 }"), "neither a word nor a map", 6},
        {FLOW(COPY "kernel k = c { at (i) }"), "name the map before `at`", 6},
        {FLOW(COPY "kernel k = c { keep y somewhere }"), "expected reg, tile", 6},
        {FLOW("combine m (a:f32 = 0) { merge (p) (q) { (p, q) } }"), "too many values", 5},
        {"nest n on cpu { mem x : f32[4] for i : 4 { for i : 2 { } } }", "declared twice", 1},
        {"nest n on cpu { x[0] = 1 }", "nothing named \"x\"", 1},
        {"nest n on cpu { sync", "expected", 1},
        {"graph g { in x : f32[4]\n y : f32[4] = Relu x }", "no operator \"Relu\"", 2},
        {"graph g { out z }", "expected a value that stands before", 1},
    };
    all_refused(bad + 1, sizeof bad / sizeof bad[0] - 1, E_SYNTAX);
    Job none = {.text = "# nothing"};
    cr_assert(good(&none));
}

Test(text, flow_rules) {
    static const Bad bad[] = {
        {FLOW(""), "nothing writes \"y\"", 0},
        {FLOW("map c [i:N, j:3] { x[i,j] -> y[i,j] }"),
         "elements of \"y\" are needed that nothing writes", 0},
        {FLOW("map c [i:N, j:4] { x[i,j+1] -> y[i,j] }"), "index 1 of \"x\", j + 1, leaves 0..3",
         0},
        {FLOW("map c [i:N, j:4] { x[i-1,j] -> y[i,j] }"),
         "index 0 of \"x\", i - 1, leaves 0..N - 1", 0},
        {FLOW("map c [i:N, j:5] { x[i,j] else 0 -> y[i,j] }"), "index 1 of \"y\", j, leaves", 0},
        {FLOW("map c [i:N, j:4, q:2] { x[i,j] -> y[i,j] }"), "no index of \"y\" uses \"q\"", 0},
        {FLOW("map c [i:N, j:4] { x[i,j] -> y[i,j/2] }"), "written twice", 0},
        {FLOW(COPY "map d [i:N] { x[i,0] -> y[i,3] }"), "\"y\" is also written by \"c\"", 0},
        {FLOW("map c [i:N, j:4] { x[i,j] -> x[i,j] }"), "\"x\" is not to be written", 0},
        {FLOW("tmp t : f32[N,4]\nmap c [i:N, j:4] { t[i,j] -> y[i,j] }\nmap d [i:N, j:4] { x[i,j] "
              "-> t[i,j] }"),
         "\"t\" is read before it is written", 0},
        {FLOW("tmp t : f32[N,4]\nmap d [i:N, j:4 | j <= i] { x[i,j] -> t[i,j] }\n"
              "map c [i:N, j:4] { t[i,j] -> y[i,j] }"),
         "elements of \"t\" are read that nothing writes", 0},
        {FLOW("param e : f32[5,4]\nmap c [i:N, j:4] { r <- k[i]\n e[r,j] -> y[i,j] }"),
         "index 0 of \"e\", r, leaves 0..4", 0},
        {FLOW("tmp t : f32[N,4] layout [a,b] -> (a, b/2) of [N,2]\n" COPY),
         "two elements in one place", 0},
        {FLOW("tmp t : f32[N,4] layout [a,b] -> (a, b+1) of [N,4]\n" COPY), "leaves its box", 0},
        {FLOW(COPY "map d [i:N] { x[i,0] -> y[i,0] }\nkernel k = c { }"), "also written", 0},
        {FLOW(COPY "kernel k = c { tile q:4 }"), "map \"c\" has no dim \"q\"", 0},
        {FLOW(COPY "kernel k = c { tile i }"), "dim \"i\" needs a size", 0},
        {FLOW(COPY "kernel k = c { keep k reg }"), "no map of the kernel uses \"k\"", 0},
        {FLOW(COPY "kernel k = c when N >= 4 { }"), "the last variant of \"k\" has a guard", 0},
        {FLOW(COPY "kernel k = c { }\nkernel j = c { }"), "map \"c\" is in two kernels", 0},
        {FLOW("tmp t : f32[N]\n" COPY "map d [i:N] { x[i,0] -> t[i] }\nkernel k = c { }"),
         "in no kernel", 0},
        {FLOW(COPY "if k { } else { }"), "condition \"k\" is not a bool", 0},
        {"flow f (T in 1..) { in x : f32[T]\n state h : f32[T+1]\n out y : f32[T+1]\n"
         "loop t:T { map a [] { h[t] + x[t] -> h[t+1] } }\n map b [i:T+1] { h[i] -> y[i] } }",
         "elements of \"h\" are read that nothing writes", 0},
        {"flow f (N in 5..4) { }", "empty range", 0},
        {"flow f { in x : f32[4] in 0..3 }", "only integers have a range", 0},
    };
    REFUSED(bad, E_VERIFY);
}

#define NEST(rest)                                                                                 \
    "nest n on cpu (N in 1..) {\n mem x : f32[N]\n mem y : f32[N] written\n" rest "\n}\n"

Test(text, nest_rules) {
    static const Bad bad[] = {
        {NEST("for i : N { y[i+1] = x[i] }"), "index 0 of \"y\", i + 1, leaves 0..N - 1", 0},
        {NEST("for i : N { x[i] = 0 }"), "mark it `written`", 0},
        {NEST("for i : (N+7)/8 { for l : 8 vector { y[8*i+l] = x[8*i+l] } }"), "leaves 0..N - 1",
         0},
        {NEST("for i : N { reg r : f32[2]\n r[i] = 0 }"), "is in registers", 0},
        {NEST("for i : 2 { reg r : f32[2]\n r[i] = 0 }"), "is in registers", 0},
        {NEST("for i : N { reg r : f32[2] }\n y[0] = r[0]"), "\"r\" is not declared here", 0},
        {NEST("reg r : f32[N]"), "\"r\" needs a constant size", 0},
        {NEST("for i : N unroll { y[i] = 0 }"),
         "the extent of an unroll or vector loop is constant", 0},
        {NEST("for i : N { parallel j : 4 { y[i] = 0 } }"), "parallel loops stand outermost", 0},
        {NEST("for l : 8 vector { sync }"), "a vector loop holds bodies, or one prefetch", 0},
        {NEST("for i : 8 if i < N { y[i] = 0 }"), "only vector loops have guards", 0},
        {NEST("reg r : f32[8] = 0\n reg s : f32[]\n fold sum:f32 4 r[0] -> s[]"),
         "do not have 4 lanes", 0},
        {NEST("reg r : f32[8] = 0\n reg s : f32[]\n fold sum:f32 8 r[1] -> s[]"),
         "is 0, the first lane", 0},
        {NEST("while x[0] { sync }"), "condition of `while` is a bool", 0},
        {"nest n on cpu { mem x : f32[4] written\n for i : 4 { if i < 2 { x[i+3] = 0 } } }",
         "leaves 0..3", 0},
    };
    REFUSED(bad, E_VERIFY);
}

static const char *const accepted[] = {
    NEST("for i : (N+7)/8 { for l : 8 vector if 8*i + l < N { y[8*i+l] = x[8*i+l] } }"),
    NEST("for i : N { if i >= 1 { y[i-1] = x[i] } }"),
    FLOW("map a [i:N] { x[i,0] -> y[i,0] }\nmap b [i:N, j:3] { x[i,j] -> y[i,j+1] }"),
    FLOW("map a [i:N, j:4] { r <- k[i]\n s = max(min(r, 3), 0)\n x[i,s] + x[i,j] -> y[i,j] }"),
    FLOW("tmp t : f32[N,4]\nmap d [i:N, j:4 | j <= i] { x[i,j] -> t[i,j] }\n"
         "map c [i:N, j:4, q:4 | q <= j, q <= i] { t[i,q] -> y[i,j] sum:f32 }"),
    "flow f (T in 1..) { in x : f32[T]\n state h : f32[T+1]\n out y : f32[T+1]\n map z [] { 0 -> "
    "h[0] }\n"
    "loop t:T { map a [] { h[t] + x[t] -> h[t+1] } }\n map b [i:T+1] { h[i] -> y[i] } }",
    "flow f { in c : bool[]\n out y : f32[4]\n if c { map a [i:4] { 1 -> y[i] } } else { map b "
    "[i:4] { 2 -> y[i] } } }",
};

Test(text, sound_texts_pass) {
    for (size_t i = 0; i < sizeof accepted / sizeof accepted[0]; i++) {
        Job job = {.text = accepted[i]};
        cr_expect(good(&job), "%s\n%s", job.message, accepted[i]);
    }
}

Test(text, message_stands_at_the_guilty_line) {
    Job job = {.text = FLOW("map c [i:N, j:4] {\n  a <- x[i,j+1]\n  a -> y[i,j]\n}")};
    cr_assert(!good(&job));
    const char *mark = strstr(job.message, "# <-- ");
    cr_assert(mark != NULL, "%s", job.message);
    const char *line = mark;
    while (line > job.message && line[-1] != '\n') line--;
    cr_assert(!strncmp(line, "    a <- x[i, j + 1]", 20), "%.60s", line);
}
