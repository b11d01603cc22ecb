/* SPDX-License-Identifier: Apache-2.0 */
/* C text to a library with weights behind it, and to code in this process; the object cache;
 * failures. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/driver.h"

/* The descriptor gives the weights' address, which is all that is asked here. */
static const char blob_text[] =
    "struct weir_blob { unsigned long long a, b; long long delta; unsigned long long bytes; };\n"
    "volatile struct weir_blob weir_blob = {0x9a3f51c6e8b2470dull, 0xd7046b1f2ec5938aull, 0, 0};\n"
    "double sin(double);\n"
    "int helper(int);\n"
    "double use(double x) { return sin(x) + helper(3); }\n"
    "__attribute__((visibility(\"default\"))) const void *weir_model_descriptor(void) {\n"
    "  return (const char *)&weir_blob + weir_blob.delta; }\n";
static const char helper_text[] = "int helper(int x);\nint helper(int x) { return 2 * x; }\n";

enum { BIG = 10 << 20, ODD = 12345 };

typedef struct Bench {
    Ctx *ctx;
    Arena *arena;
    char folder[64], message[4096];
    Code code;
    Units units;
    ToolOptions tools;
    Objects objects;
    ToolTimes times;
    Weights weights;
    unsigned char *data;
} Bench;

static const char *const plain_flags[] = {"-march=x86-64-v3", NULL};

static void see(void *user, const Diag *d) {
    Bench *b = user;
    b->code = d->code;
    snprintf(b->message, sizeof b->message, "%s", d->message);
}

static void add_weight(Bench *b, int64_t bytes, int64_t from) {
    Pack pack = {
        .type = U8, .from = b->data + from, .count = bytes, .storage = bytes, .dense = true};
    Weight w = {b->weights.bytes, pack};
    vec_push(b->arena, &b->weights.at, w);
    b->weights.bytes += (bytes + 63) / 64 * 64;
}

static Bench *bench_new(void) {
    Bench *b = calloc(1, sizeof *b);
    b->ctx = ctx_new(see, b);
    b->arena = ctx_arena(b->ctx);
    strcpy(b->folder, "/tmp/weir-test-XXXXXX");
    cr_assert(mkdtemp(b->folder));
    setenv("XDG_CACHE_HOME", b->folder, 1);
    vec_push(b->arena, &b->units, ((Unit){"model.c", blob_text, plain_flags}));
    vec_push(b->arena, &b->units, ((Unit){"helper.c", helper_text, plain_flags}));
    b->tools = (ToolOptions){.jobs = 2};
    b->data = malloc(BIG + ODD);
    for (int64_t i = 0; i < BIG + ODD; i++) b->data[i] = (unsigned char)(i * 2654435761u >> 24);
    add_weight(b, ODD, BIG);
    add_weight(b, BIG, 0);
    return b;
}

static void bench_free(Bench *b) {
    char command[256];
    snprintf(command, sizeof command, "chmod -R u+w %s; rm -rf %s", b->folder, b->folder);
    cr_assert(system(command) == 0);
    ctx_free(b->ctx);
    free(b->data);
    free(b);
}

static void check_weights(const Bench *b, const unsigned char *at) {
    cr_assert(((uintptr_t)at & 4095) == 0);
    cr_assert(memcmp(at, b->data + BIG, ODD) == 0);
    cr_assert(memcmp(at + (ODD + 63) / 64 * 64, b->data, BIG) == 0);
}

static void compile(void *arg) {
    Bench *b = arg;
    b->objects = (Objects){0};
    toolchain_compile(b->arena, &b->units, &b->tools, &b->objects, &b->times);
}

static const char *path_in(Bench *b, const char *name) {
    return arena_printf(b->arena, "%s/%s", b->folder, name);
}

static void write_library(Bench *b, const char *path) {
    Span library = toolchain_link(b->arena, &b->objects, NULL);
    ElfPlan plan = elf_plan(b->arena, library.at, library.n, b->weights.bytes, true);
    Output *out = output_open(b->arena, path);
    output_write(b->ctx, out, plan.head, plan.head_bytes, 0);
    WeightSink sink = {.fd = out->fd, .start = plan.start, .path = path, .jobs = 2};
    weights_put(b->ctx, &b->weights, &sink);
    output_write(b->ctx, out, plan.tail, plan.tail_bytes, plan.tail_start);
    output_finish(b->ctx, out);
}

static void build(void *arg) {
    Bench *b = arg;
    compile(b);
    write_library(b, path_in(b, "a.so"));
}

static int count_files(const char *folder) {
    DIR *dir = opendir(folder);
    int n = 0;
    for (struct dirent *d; dir && (d = readdir(dir));)
        n += d->d_name[0] != '.' || strlen(d->d_name) > 2;
    if (dir) closedir(dir);
    return n;
}

/* ---- libraries ------------------------------------------------------------------------------- */

/* Loads, compares the weights, unloads. */
static void check_library(Bench *b, const char *path) {
    void *so = dlopen(path, RTLD_NOW);
    cr_assert(so, "%s", dlerror());
    const void *(*descriptor)(void) =
        (const void *(*)(void))(uintptr_t)dlsym(so, "weir_model_descriptor");
    cr_assert(descriptor);
    cr_assert_not(dlsym(so, "use"));
    check_weights(b, descriptor());
    dlclose(so);
}

Test(toolchain, library_with_weights) {
    Bench *b = bench_new();
    cr_assert(ctx_try(b->ctx, build, b), "%s", b->message);
    check_library(b, path_in(b, "a.so"));
    cr_assert(system(arena_printf(b->arena, "cd %s && cp a.so s.so && strip s.so 2> /dev/null",
                                  b->folder)) == 0);
    check_library(b, path_in(b, "s.so"));
    bench_free(b);
}

static bool segments_ascend(const char *path) {
    FILE *f = fopen(path, "rb");
    Elf64_Ehdr head;
    Elf64_Phdr segment[16];
    cr_assert(f && fread(&head, sizeof head, 1, f) == 1 && head.e_phnum <= 16);
    cr_assert(head.e_phoff == sizeof head &&
              fread(segment, sizeof *segment, head.e_phnum, f) == head.e_phnum);
    fclose(f);
    uint64_t end = 0;
    for (int i = 0; i < head.e_phnum; i++) {
        if (segment[i].p_type != PT_LOAD) continue;
        if (segment[i].p_vaddr < end ||
            (segment[i].p_vaddr - segment[i].p_offset) % segment[i].p_align)
            return false;
        end = segment[i].p_vaddr + segment[i].p_memsz;
    }
    return true;
}

static void build_twice(void *arg) {
    Bench *b = arg;
    b->tools.no_cache = true;
    for (int i = 0; i < 2; i++) {
        const char *folder = path_in(b, i ? "second" : "first");
        mkdir(folder, 0700);
        compile(b);
        write_library(b, arena_printf(b->arena, "%s/a.so", folder));
    }
}

Test(toolchain, same_bytes_twice) {
    Bench *b = bench_new();
    cr_assert(ctx_try(b->ctx, build_twice, b), "%s", b->message);
    cr_assert(system(arena_printf(b->arena, "cd %s && cmp first/a.so second/a.so", b->folder)) ==
              0);
    cr_assert(segments_ascend(path_in(b, "first/a.so")));
    bench_free(b);
}

/* Five gigabytes of weights, all hole but the last bytes. */
static void build_huge(void *arg) {
    Bench *b = arg;
    int64_t bytes = INT64_C(5) << 30;
    compile(b);
    Span library = toolchain_link(b->arena, &b->objects, NULL);
    ElfPlan plan = elf_plan(b->arena, library.at, library.n, bytes, true);
    Output *out = output_open(b->arena, path_in(b, "huge.so"));
    output_write(b->ctx, out, plan.head, plan.head_bytes, 0);
    output_write(b->ctx, out, "the last bytes", 14, plan.start + bytes - 14);
    output_write(b->ctx, out, plan.tail, plan.tail_bytes, plan.tail_start);
    output_finish(b->ctx, out);
}

Test(toolchain, more_than_two_gigabytes) {
    Bench *b = bench_new();
    cr_assert(ctx_try(b->ctx, build_huge, b), "%s", b->message);
    void *so = dlopen(path_in(b, "huge.so"), RTLD_NOW);
    cr_assert(so, "%s", dlerror());
    const char *(*weights)(void) =
        (const char *(*)(void))(uintptr_t)dlsym(so, "weir_model_descriptor");
    cr_assert(memcmp(weights() + (INT64_C(5) << 30) - 14, "the last bytes", 14) == 0);
    dlclose(so);
    bench_free(b);
}

/* ---- this process ---------------------------------------------------------------------------- */

static void load(void *arg) {
    Bench *b = arg;
    compile(b);
    unsigned char *memory = NULL;
    cr_assert(posix_memalign((void **)&memory, 4096, (size_t)b->weights.bytes) == 0);
    arena_defer(b->arena, free, memory);
    WeightSink sink = {.to = memory, .fd = -1, .path = "memory", .jobs = 2};
    weights_put(b->ctx, &b->weights, &sink);
    Jit *jit = jit_new(b->ctx, &b->objects);
    jit_blob(jit)->delta = (int64_t)((intptr_t)memory - (intptr_t)jit_blob(jit));
    check_weights(b, (const unsigned char *)jit_model(jit)());
    jit_free(jit);
}

Test(toolchain, in_process) {
    Bench *b = bench_new();
    cr_assert(ctx_try(b->ctx, load, b), "%s", b->message);
    bench_free(b);
}

/* ---- cache ----------------------------------------------------------------------------------- */

Test(toolchain, second_time_from_cache) {
    Bench *b = bench_new();
    cr_assert(ctx_try(b->ctx, compile, b));
    cr_assert_eq(b->times.cached, 0);
    Objects first = b->objects;
    cr_assert(ctx_try(b->ctx, compile, b));
    cr_assert_eq(b->times.cached, 2);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(first.at[i].n, b->objects.at[i].n);
        cr_assert(memcmp(first.at[i].at, b->objects.at[i].at, first.at[i].n) == 0);
    }
    static const char *const other_flags[] = {"-march=x86-64-v2", NULL};
    for (int i = 0; i < b->units.n; i++) b->units.at[i].flags = other_flags;
    cr_assert(ctx_try(b->ctx, compile, b));
    cr_assert_eq(b->times.cached, 0);
    CacheInfo info = cache_info(b->arena);
    cr_assert_eq(info.entries, 4);
    struct stat st;
    cr_assert(stat(info.folder, &st) == 0 && (st.st_mode & 0777) == 0700);
    cache_clear(b->arena);
    cr_assert_eq(cache_info(b->arena).entries, 0);
    bench_free(b);
}

static void damage_is_noticed(const char *how) {
    Bench *b = bench_new();
    cr_assert(ctx_try(b->ctx, compile, b));
    Objects good = b->objects;
    cr_assert(system(arena_printf(b->arena, "for f in %s/weir/objects/*/*; do %s; done", b->folder,
                                  how)) == 0);
    cr_assert(ctx_try(b->ctx, compile, b));
    cr_assert_eq(b->times.cached, 0, "%s", how);
    cr_assert(memcmp(good.at[0].at, b->objects.at[0].at, good.at[0].n) == 0);
    cr_assert(ctx_try(b->ctx, compile, b));
    cr_assert_eq(b->times.cached, 2, "%s", how);
    bench_free(b);
}

Test(toolchain, damaged_entries_are_made_again) {
    damage_is_noticed("printf X | dd of=$f bs=1 seek=200 conv=notrunc 2> /dev/null");
    damage_is_noticed("truncate -s 100 $f");
    damage_is_noticed("truncate -s 0 $f");
    damage_is_noticed("echo more >> $f");
}

Test(toolchain, cache_keeps_its_limit) {
    Bench *b = bench_new();
    setenv("WEIR_CACHE_BYTES", "16000", 1);
    b->units.n = 0;
    for (int i = 0; i < 40; i++) {
        const char *text = arena_printf(b->arena, "int f%d(void) { return %d; }\n", i, i);
        vec_push(b->arena, &b->units, ((Unit){"f.c", text, plain_flags}));
    }
    cr_assert(ctx_try(b->ctx, compile, b));
    CacheInfo info = cache_info(b->arena);
    cr_assert(info.bytes <= 16000 && info.limit == 16000);
    bench_free(b);
}

Test(toolchain, foreign_cache_folder_is_not_used) {
    Bench *b = bench_new();
    const char *folder = path_in(b, "weir");
    mkdir(folder, 0700);
    chmod(folder, 0777);
    for (int i = 0; i < 2; i++) {
        cr_assert(ctx_try(b->ctx, compile, b));
        cr_assert_eq(b->times.cached, 0);
    }
    cr_assert_eq(count_files(folder), 0);
    bench_free(b);
}

/* ---- failures -------------------------------------------------------------------------------- */

static void fails(Bench *b, void (*fn)(void *), Code code, const char *said) {
    cr_assert_not(ctx_try(b->ctx, fn, b));
    cr_assert_eq(b->code, code);
    cr_assert(strstr(b->message, said), "\"%s\" does not say \"%s\"", b->message, said);
    bench_free(b);
}

Test(toolchain, compiler_says_what_is_wrong) {
    Bench *b = bench_new();
    b->units.at[1].text = "int helper(int x) { return y; }\n";
    fails(b, compile, E_TOOLCHAIN,
          "unit \"helper.c\": \"/usr/bin/clang-19\" failed with status 1: <stdin>:1:");
}

Test(toolchain, missing_compiler) {
    Bench *b = bench_new();
    setenv("WEIR_CLANG", "/nowhere/clang", 1);
    fails(b, compile, E_TOOLCHAIN, "cannot run \"/nowhere/clang\": No such file");
}

Test(toolchain, compiler_that_answers_nonsense) {
    Bench *b = bench_new();
    setenv("WEIR_CLANG", "/bin/echo", 1);
    fails(b, compile, E_TOOLCHAIN, "LLVM cannot read clang's bitcode");
}

Test(toolchain, missing_linker) {
    Bench *b = bench_new();
    setenv("WEIR_LLD", "/nowhere/lld", 1);
    fails(b, build, E_TOOLCHAIN, "cannot run \"/nowhere/lld\"");
}

Test(toolchain, undefined_symbol) {
    Bench *b = bench_new();
    b->units.n = 1;
    fails(b, build, E_TOOLCHAIN, "undefined symbol: helper");
}

static void build_without_blob(void *arg) {
    Bench *b = arg;
    b->units.at[0].text =
        "__attribute__((visibility(\"default\"))) int weir_model_descriptor(void) { return 0; }\n";
    build(b);
}

Test(toolchain, library_without_blob) {
    fails(bench_new(), build_without_blob, E_INTERNAL, "has no place for weights");
}

Test(toolchain, load_with_undefined_symbol) {
    Bench *b = bench_new();
    b->units.n = 1;
    fails(b, load, E_TOOLCHAIN, "helper");
}

/* ---- output ---------------------------------------------------------------------------------- */

static void write_nowhere(void *arg) {
    Bench *b = arg;
    output_open(arena_new(b->ctx), path_in(b, "missing/a.so"));
}

Test(output, missing_folder) {
    fails(bench_new(), write_nowhere, E_FILE, "No such file or directory");
}

static void write_on_folder(void *arg) {
    Bench *b = arg;
    output_open(arena_new(b->ctx), b->folder);
}

Test(output, name_of_a_folder) {
    fails(bench_new(), write_on_folder, E_FILE, "is no regular file");
}

static void write_read_only(void *arg) {
    Bench *b = arg;
    output_open(arena_new(b->ctx), "/proc/a.so");
}

Test(output, folder_that_takes_no_files) {
    fails(bench_new(), write_read_only, E_FILE, "cannot write \"/proc/a.so\"");
}

static void write_then_fail(void *arg) {
    Bench *b = arg;
    Output *out = output_open(arena_new(b->ctx), path_in(b, "half.so"));
    output_write(b->ctx, out, "half", 4, 0);
    WeightSink sink = {.fd = -1, .path = "half.so", .jobs = 2};
    weights_put(b->ctx, &b->weights, &sink);
}

Test(output, nothing_is_left_of_a_failure) {
    Bench *b = bench_new();
    cr_assert_not(ctx_try(b->ctx, write_then_fail, b));
    cr_assert_eq(b->code, E_FILE);
    cr_assert_eq(count_files(b->folder), 0);
    bench_free(b);
}
