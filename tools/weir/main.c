/* SPDX-License-Identifier: Apache-2.0 */
/* weir: the command line. Exit codes: 0 done, 1 the model or an input is at fault, 2 usage, 3 our
 * fault. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "compiler/weir.h"
#include "tools/weir/guard.h"
#include "tools/weir/verbs.h"

/* Options of compile: what decides what is made (a library names it), what else does, and where
 * passes stop. */
#define MADE_OPTIONS                                                                               \
    "  --target c|cuda         what to emit\n"                                                     \
    "  --gpu NAMES             with --target cuda: GPUs to make code for: sm_80,sm_90a,sm_100;\n"  \
    "                          the first is planned for\n"                                         \
    "  --gpu-libraries NAMES   libraries that kernels may be given to: cublaslt,cudnn; needed\n"   \
    "                          at run time if one is\n"                                            \
    "  --gpu-copies HOW        auto, threads, or engine: boxes of tensors by sm_90a's copy "       \
    "engine,\n"                                                                                    \
    "                          which auto takes for large products where code is for it alone\n"   \
    "  --cpu NAMES             native, x86-64-v2, -v3, -v4, aarch64 or a CPU name; several, "      \
    "the best last,\n"                                                                             \
    "                          make a library that picks one when it is loaded\n"                  \
    "  --dim NAME=V|NAME=LO..HI\n"                                                                 \
    "                          fix or bound a symbolic dim\n"                                      \
    "  --feed NAME             an input with a default value stays an input\n"                     \
    "  --math MODE             strict, default or fast\n"                                          \
    "  --convert f16|bf16      store what products read in halves; the list is printed\n"          \
    "  --weights WHERE         embed or file\n"                                                    \
    "  --packing WHEN          build, create or swap\n"                                            \
    "  --skip PASS             leave an optional pass out\n"                                       \
    "  --profile               time kernels at run time (weir_model.profile)\n"                    \
    "  --checked               bounds checks in front of every access to memory (slow)\n"
#define RECIPE_OPTIONS                                                                             \
    "  --save-recipe FILE      write what the passes decided, to be edited\n"                      \
    "  --recipe FILE           decide as this file says\n"
#define OWN_OPTIONS                                                                                \
    "  --pass-plugin P.so[:after PASS]\n"                                                          \
    "                          a pass of your own, a library (weir_plugin.h); behind clean\n"      \
    "  --operators FILE        operators of your own, as text of flows\n"                          \
    "  --link FILE.o           an object file with functions that they call\n"                     \
    "  --print-after PASS      print the IR after a pass (\"all\": after each)\n"                  \
    "  --verify-each           check the IR after every pass\n"                                    \
    "  --time-passes           print what each pass took\n"                                        \
    "  --external-data WHERE   folder (the model's own) or anywhere\n"                             \
    "  --cache=no              compile every object again\n"                                       \
    "  --max-memory BYTES      end with a message when compiling takes more, clang's and lld's\n"  \
    "                          too (300M, 2G)\n"                                                   \
    "  -j N                    compile with N threads\n"
#define TIME_OPTION "  --max-time S            end with a message when compiling takes longer\n"
#define OTHER_OPTIONS RECIPE_OPTIONS OWN_OPTIONS TIME_OPTION
#define STOP_OPTION "  --stop-after PASS       run no pass after this one\n"
#define COMPILE_OPTIONS MADE_OPTIONS OTHER_OPTIONS
#define INPUT_OPTIONS                                                                              \
    "  --input NAME=FILE       an input from a .npy or .pb file (repeat)\n"                        \
    "  --random SEED           make the inputs that are not given\n"                               \
    "  --size SYMBOL=N         size of a symbolic dim of random inputs (else 1)\n"

static const char *const writing[] = {"emit", "emit-dir", "name", NULL};
static const char *const ending[] = {"emit", "emit-dir", "name", "stop-after", NULL};
static const char *const tuning[] = {"emit",   "emit-dir",    "name", "stop-after",
                                     "recipe", "save-recipe", NULL};
static const char *const named[] = {"target",  "gpu",     "gpu-libraries", "gpu-copies", "cpu",
                                    "dim",     "feed",    "math",          "convert",    "skip",
                                    "name",    "weights", "packing",       "emit",       "emit-dir",
                                    "profile", "checked", "stop-after",    NULL};
static const char no_effect[] = "it has no effect here", makes_one[] = "it makes a recipe",
                  says_itself[] = "the library says itself how it was made; leave it out";

static const Verb verbs[] = {
    {"compile", "compile a model to a shared library",
     "weir compile MODEL.onnx -o MODEL.so [options]\n"
     "  -o FILE                 the library to write\n"
     "  --emit c|header|cu      write sources: all that a C compiler needs, the typed header, or\n"
     "                          the kernels for a GPU\n"
     "  --emit-dir DIR          where they go; with --emit, -o may be left out\n"
     "  --name NAME             what the model is called, in place of its graph's "
     "name\n" COMPILE_OPTIONS STOP_OPTION,
     verb_compile, NULL, NULL},
    {"run", "run a model on inputs",
     "weir run MODEL.onnx|MODEL.so|MODEL.ir [options]\n" INPUT_OPTIONS
     "  --output-dir DIR        write every output as DIR/NAME.npy (or .pb)\n"
     "  --threads N             threads to run with (0: all)\n"
     "  --engine WHICH          compiled (in this process), library (a .so, opened) or eval:\n"
     "                          the reference evaluator, at --stop-after PASS "
     "(lower)\n" COMPILE_OPTIONS STOP_OPTION,
     verb_run, writing, no_effect},
    {"test", "run cases in the ONNX backend test form",
     "weir test DIR... [options]\n"
     "  --engine WHICH          compiled (in process), library (a .so), eval, or both: compiled "
     "and "
     "eval\n"
     "  --form FORM             the model as given, or made symbolic (all dims of all inputs) or "
     "constant\n"
     "                          (all inputs but the first): the results must be the same\n"
     "  -j N                    cases at a time (as many as there are CPUs)\n"
     "  --threads N             threads that each case runs with (1)\n"
     "  --timeout S             seconds for one case (60)\n"
     "  --rtol R --atol A       tolerance of floats (1e-3, 1e-7; of bf16 at least 2^-6); --math "
     "fast\n"
     "                          adds 2^-8 of the largest magnitude, but to doubles\n"
     "  --json FILE             results by case\n"
     "  --verbose               print passing cases too\n"
     "  With --engine eval, --stop-after PASS says what is evaluated (lower).\n" COMPILE_OPTIONS
         STOP_OPTION,
     verb_test, writing, no_effect},
    {"bench", "time a model",
     "weir bench MODEL.onnx|MODEL.so [options]\n" INPUT_OPTIONS
     "  --threads N             threads to run with (0: all; 1 by default)\n"
     "  --min-time S            measure for at least this long (1)\n"
     "  --kernels               then print the time of each kernel\n"
     "  --json FILE             write the figures\n" COMPILE_OPTIONS,
     verb_bench, ending, no_effect},
    {"check", "compare compiled code with the evaluator",
     "weir check MODEL.onnx|MODEL.ir [options]\n" INPUT_OPTIONS
     "  --threads N             threads to run with\n"
     "  --bisect                name the pass and the value where they part\n" COMPILE_OPTIONS,
     verb_check, ending, no_effect},
    {"dump", "print a model at any level",
     "weir dump MODEL.onnx|MODEL.ir [options]\n"
     "  --level LEVEL           graph, flow, nest or c (flow)\n"
     "  --after PASS            as this pass leaves it\n"
     "  --diff OTHER            what differs from another model, line by line\n"
     "  --format FORMAT         text, dot, svg, json, or html: a page with all levels and passes,\n"
     "                          with --profile also with the time of each kernel, measured here\n"
     "  --size SYMBOL=N         value of a symbolic dim in drawings (else its least)\n"
     "  -o FILE                 where to (standard output)\n" COMPILE_OPTIONS STOP_OPTION,
     verb_dump, writing, no_effect},
    {"report", "count what each kernel computes and moves",
     "weir report MODEL.onnx|MODEL.ir [options]\n"
     "  --format FORMAT         text, json, or html: a page to look at\n"
     "  -o FILE                 where to (standard output)\n"
     "  --size SYMBOL=N         value of a symbolic dim (else its least)\n" COMPILE_OPTIONS,
     verb_report, ending, no_effect},
    {"profile", "time a model's kernels in place",
     "weir profile MODEL.onnx|MODEL.ir [options]\n" INPUT_OPTIONS
     "  --threads N             threads to run with (0: all; 1 by default)\n"
     "  --min-time S            measure for at least this long (1)\n"
     "  --format FORMAT         text, json, or html: the page of report, with times\n"
     "  -o FILE                 where to (standard output)\n"
     "  --trace FILE            the last run as a Chrome or Perfetto trace\n" COMPILE_OPTIONS,
     verb_profile, ending, no_effect},
    {"tune", "measure other lines for kernels, and keep what is quicker",
     "weir tune MODEL.onnx|MODEL.ir -o MODEL.tune [options]\n" INPUT_OPTIONS
     "  -o FILE                 the recipe to write: compile --recipe FILE\n"
     "  --threads N             threads to run with (0: all; 1 by default)\n"
     "  --min-time S            measure each model for at least this long (0.3)\n"
     "  --max-time S            begin no further variant after this long (120)\n"
     "  The model is to be compiled with the same of these:\n" MADE_OPTIONS OWN_OPTIONS,
     verb_tune, tuning, makes_one},
    {"extract", "cut one kernel out as a text of its own",
     "weir extract MODEL.onnx|MODEL.ir --kernel NAME|--all [options]\n"
     "  -o FILE                 where to (standard output)\n"
     "  --shrink                with large dims made small\n"
     "  --small N               of a size near N (32)\n"
     "  --plain                 with short names by position\n" COMPILE_OPTIONS,
     verb_extract, ending, no_effect},
    {"info", "describe a compiled library, or a model",
     "weir info MODEL.so      names, types, shapes, memory, what made it\n"
     "weir info MODEL.onnx    names, types, shapes, operators; dims are as inference finds them\n",
     verb_info, NULL, NULL},
    {"verify", "compile again and compare with a library",
     "weir verify MODEL.so MODEL.onnx|MODEL.ir [options]\n"
     "  The library says with which options it was made, but for files: give --operators, "
     "--pass-plugin\n"
     "  and --link again. Says whether each byte is the same, else what differs.\n" OTHER_OPTIONS,
     verb_verify, named, says_itself},
    {"ops", "list the operators that compile",
     "weir ops [options]\n  --format FORMAT         text, markdown or json\n", verb_ops, NULL,
     NULL},
    {"doctor", "say what compiling here would use",
     "weir doctor             compiler, linker, CPU, cache, GPU\n", verb_doctor, NULL, NULL},
    {"cache", "look at, or clear, the cache of objects",
     "weir cache [--clear]\n  --clear                 drop what is in it\n", verb_cache, NULL,
     NULL},
    {"explain", "explain a diagnostic's code, or a pass",
     "weir explain CODE|PASS     what a code means, what a pass does\n"
     "weir explain codes|passes  list them\n",
     verb_explain, NULL, NULL},
};
enum { VERBS = sizeof verbs / sizeof *verbs };

static void print_help(FILE *to) {
    fprintf(to, "weir %s: compile ONNX models to shared libraries\n\n", weir_version());
    for (int i = 0; i < VERBS; i++) fprintf(to, "  weir %-10s %s\n", verbs[i].name, verbs[i].what);
    fprintf(to, "\n\"weir VERB --help\" lists a verb's options.\n");
}

static bool wants_help(int argc, char **argv) {
    for (int i = 0; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return true;
    return false;
}

int main(int argc, char **argv) {
    signal(SIGCHLD, SIG_DFL); /* who starts us may have it ignored, which is inherited */
    if (argc < 2) return print_help(stderr), EXIT_USAGE;
    if (!strcmp(argv[1], "--version")) return printf("weir %s\n", weir_version()), EXIT_DONE;
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return print_help(stdout), EXIT_DONE;
    for (int i = 0; i < VERBS; i++) {
        if (strcmp(argv[1], verbs[i].name)) continue;
        if (wants_help(argc - 2, argv + 2)) return fputs(verbs[i].usage, stdout), EXIT_DONE;
        Args args = {.argc = argc - 2,
                     .argv = argv + 2,
                     .verb = verbs[i].name,
                     .without = verbs[i].without,
                     .why = verbs[i].why};
        return guarded(verbs[i].run, &args);
    }
    fprintf(stderr, "weir: there is no verb \"%s\"; \"weir --help\" lists them\n", argv[1]);
    return EXIT_USAGE;
}
