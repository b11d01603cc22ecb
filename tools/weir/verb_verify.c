/* SPDX-License-Identifier: Apache-2.0 */
/* weir verify: is this library what this Weir makes of this model? It is compiled again, with the
 * options that the library names, its recipe too, and compared byte by byte. Of other files that
 * were given (plug-ins, operators, objects) it knows the hashes: they are to be given again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compiler/driver.h"
#include "compiler/targets/c/target.h"
#include "tools/weir/engine.h"
#include "tools/weir/verbs.h"

/* ---- what a library says of its making ------------------------------------------------------- */

/* The flat JSON that the compiler writes (driver.c, build_json): texts, lists of texts, and sizes
 * by name. A text without its escapes, and where it ends; NULL when there is none. */
static const char *take_text(const char *at, char *to, size_t room) {
    size_t n = 0;
    if (!at || *at != '"') return NULL;
    for (at++; *at && *at != '"'; at++) {
        char c = *at;
        if (c == '\\' && at[1]) c = *++at == 'n' ? '\n' : *at;
        if (n + 1 < room) to[n++] = c;
    }
    to[n] = '\0';
    return *at ? at + 1 : NULL;
}

/* What stands behind a key; NULL: the key is not there. */
static const char *find_key(const char *build, const char *key) {
    char word[64];
    snprintf(word, sizeof word, "\"%s\": ", key);
    const char *at = strstr(build, word);
    return at ? at + strlen(word) : NULL;
}

static bool give_text(weir_context *c, const char *build, const char *key) {
    char value[256];
    if (!take_text(find_key(build, key), value, sizeof value)) return true;
    return weir_option(c, key, value) == 0;
}

/* ["a", "b"]: the option once for each. */
static bool give_list(weir_context *c, const char *build, const char *key) {
    char value[256];
    const char *at = find_key(build, key);
    for (at = at ? at + 1 : NULL; (at = take_text(at, value, sizeof value));)
        if (weir_option(c, key, value) != 0)
            return false;
        else if (*at == ',')
            at += 2;
    return true;
}

/* {"batch": [1, 8]}: dim=batch=1..8. */
static bool give_dims(weir_context *c, const char *build) {
    char name[256], value[320];
    const char *at = find_key(build, "dims");
    for (at = at ? at + 1 : NULL; (at = take_text(at, name, sizeof name));) {
        char *end;
        long long lo = strtoll(at + strlen(": ["), &end, 10), hi = strtoll(end + 2, &end, 10);
        if (hi == INT64_MAX)
            snprintf(value, sizeof value, "%s=%lld..", name, lo);
        else
            snprintf(value, sizeof value, "%s=%lld..%lld", name, lo, hi);
        if (weir_option(c, "dim", value) != 0) return false;
        at = end + 1;
        if (*at == ',') at += 2;
    }
    return true;
}

static bool give_options(weir_context *c, const char *build) {
    static const char *const texts[] = {"target",  "gpu",     "gpu-libraries", "gpu-copies",
                                        "cpu",     "math",    "convert",       "packing",
                                        "weights", "profile", "checked",       "name"};
    bool fine = give_dims(c, build) && give_list(c, build, "feed") && give_list(c, build, "skip");
    for (size_t i = 0; fine && i < sizeof texts / sizeof *texts; i++)
        fine = give_text(c, build, texts[i]);
    return fine;
}

/* The recipe, unless another was given, in memory that has a path while `*file` is open. */
static bool give_recipe(weir_context *c, const char *build, int *file) {
    const char *at = find_key(build, "recipe");
    char path[64];
    if (!at || context_options(c)->recipe) return true;
    char *text = host_alloc(strlen(at) + 1, 1);
    bool fine = take_text(at, text, strlen(at) + 1) != NULL;
    *file = memfd_create("recipe", MFD_CLOEXEC);
    fine = fine && *file >= 0 && write(*file, text, strlen(text)) == (ssize_t)strlen(text);
    free(text);
    snprintf(path, sizeof path, "/proc/self/fd/%d", *file);
    return fine && weir_option(c, "recipe", path) == 0;
}

static bool has_files(const weir_context *c, const char *build) {
    const Options *o = context_options(c);
    const struct {
        const char *option, *what;
        int given;
    } file[] = {{"pass-plugin", "a pass plug-in", o->plugin.n},
                {"operators", "operators of its own", o->operators.n},
                {"link", "an object file", o->link.n}};
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        if (!find_key(build, file[i].option) || file[i].given) continue;
        printf("made with %s: give it here too (--%s)\n", file[i].what, file[i].option);
        return false;
    }
    return true;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Is the same text behind a key of both, or none? */
static bool same_text(const char *a, const char *b, const char *key) {
    const char *x = find_key(a, key), *y = find_key(b, key);
    while (x && y && *x == *y && !(x[0] == '"' && (x[1] == ',' || x[1] == '}'))) x++, y++;
    return x && y ? *x == *y : x == y;
}

/* Says what differs between two libraries' descriptions; false when nothing does. */
static bool tell_difference(const char *ours, const char *theirs) {
    static const char *const keys[][2] = {{"model_blake3", "model"},
                                          {"weir", "version of weir"},
                                          {"llvm", "version of LLVM"},
                                          {"cpu", "CPU"},
                                          {"gpu", "GPU"},
                                          {"gpu-libraries", "list of libraries"},
                                          {"flags", "flags for clang"}};
    static const char *const lists[][2] = {{"pass-plugin", "pass plug-in"},
                                           {"operators", "text of operators"},
                                           {"link", "object file"}};
    char a[512], b[512];
    bool any = !same_text(ours, theirs, "recipe");
    if (any) printf("another recipe than the library was made with\n");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const char *x = find_key(ours, lists[i][0]), *y = find_key(theirs, lists[i][0]);
        size_t n = x ? strcspn(x, "]") : 0, m = y ? strcspn(y, "]") : 0;
        bool same = n == m && (!n || !memcmp(x, y, n));
        if (!same) printf("another %s than the library was made with\n", lists[i][1]);
        any = any || !same;
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        bool one = take_text(find_key(ours, keys[i][0]), a, sizeof a) &&
                   take_text(find_key(theirs, keys[i][0]), b, sizeof b) && strcmp(a, b);
        if (one) printf("another %s: the library's is %s, here it is %s\n", keys[i][1], b, a);
        any = any || one;
    }
    return any;
}

static bool same_file(const char *a, const char *b, size_t *at) {
    char error[256];
    size_t n = 0, m = 0;
    char *x = read_whole(a, &n, error), *y = read_whole(b, &m, error);
    size_t less = n < m ? n : m;
    for (*at = 0; x && y && *at < less && x[*at] == y[*at];) (*at)++;
    bool same = x && y && n == m && *at == n;
    free(x);
    free(y);
    return same;
}

static int compare(weir_context *c, const char *library, const Aside *made, const char *build) {
    char ours[sizeof made->library + 16], theirs[4096];
    size_t at;
    if (same_file(made->library, library, &at)) {
        snprintf(ours, sizeof ours, "%s.weights", made->library);
        snprintf(theirs, sizeof theirs, "%s.weights", library);
        char value[16];
        bool beside = take_text(find_key(build, "weights"), value, sizeof value) != NULL;
        if (!beside || same_file(ours, theirs, &at))
            return printf("the same, byte for byte\n"), EXIT_DONE;
        return printf("the weights beside it differ at byte %zu\n", at), EXIT_MODEL;
    }
    weir_loaded *l = weir_open(c, made->library);
    if (l && !tell_difference(weir_loaded_model(l)->build, build))
        printf("differs at byte %zu, though made of the same model with the same options\n", at);
    weir_unload(l);
    return EXIT_MODEL;
}

/* May it be that "native" was asked for, on a machine as this one? The name of a CPU tells neither
 * its caches nor all of its instructions. */
static bool maybe_native(weir_context *c, const Aside *made, const char *library,
                         const char *build) {
    char ours[512] = "", theirs[512] = "";
    size_t at;
    if (same_file(made->library, library, &at)) return false;
    weir_loaded *l = weir_open(c, made->library);
    if (l) take_text(find_key(weir_loaded_model(l)->build, "flags"), ours, sizeof ours);
    weir_unload(l);
    take_text(find_key(build, "flags"), theirs, sizeof theirs);
    if (strcmp(ours, theirs)) return true;
    Machine here;
    target_c_machine(NULL, &here, "native");
    take_text(find_key(build, "cpu"), theirs, sizeof theirs);
    return strcmp(theirs, here.name) == 0;
}

static int verify(weir_context *c, const char *library, const char *model) {
    weir_loaded *l = weir_open(c, library);
    if (!l) return EXIT_MODEL;
    char *build = host_text(weir_loaded_model(l)->build);
    weir_unload(l);
    const char *slash = strrchr(library, '/');
    Aside made = {.name = slash ? slash + 1 : library};
    int recipe = -1;
    bool ready = has_files(c, build) && give_options(c, build) && give_recipe(c, build, &recipe);
    int rc = ready ? aside_compile(&made, c, model, false) : EXIT_MODEL;
    if (rc == EXIT_DONE && maybe_native(c, &made, library, build) &&
        !weir_option(c, "cpu", "native")) {
        aside_remove(&made);
        rc = aside_compile(&made, c, model, false);
    }
    if (rc == EXIT_DONE) rc = compare(c, library, &made, build);
    aside_remove(&made);
    if (recipe >= 0) close(recipe);
    free(build);
    return rc;
}

int verb_verify(Args *a) {
    const char *path[2] = {NULL, NULL};
    bool bad = false;
    weir_context *c = context_new(false);
    while (!bad && args_next(a)) {
        if (!a->name[0] && !path[1])
            path[path[0] != NULL] = args_operand(a);
        else if (!compile_option(a, c, &bad))
            bad = usage_error(a, "does not know \"%s\"", args_operand(a));
    }
    if (!bad && !path[1]) bad = usage_error(a, "needs a library and the model it was made of");
    int rc = bad ? EXIT_USAGE : verify(c, path[0], path[1]);
    weir_context_free(c);
    return rc;
}
