/* SPDX-License-Identifier: Apache-2.0 */
/* Part of cuda.c: what is put on a stream, recorded, and done again. */

int cuStreamBeginCapture_v2(void *stream, int mode) {
    Stream *s = stream;
    if (mode < 0 || mode > 2 || s->capturing) return INVALID;
    *s = (Stream){.capturing = true, .last = &s->first};
    return OK;
}
int cuStreamEndCapture(void *stream, void **graph) {
    Stream *s = stream;
    if (!s->capturing) return INVALID;
    s->capturing = false;
    graphs++;
    Work **g = malloc(sizeof *g);
    *g = s->first;
    *graph = g;
    return OK;
}

static void work_free(Work *w) {
    for (Work *next; w; w = next) next = w->next, free(w);
}

int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags) {
    if (flags) return INVALID;
    Work **copy = malloc(sizeof *copy), **at = copy;
    for (const Work *w = *(Work **)graph; w; w = w->next) {
        *at = malloc(sizeof **at);
        **at = *w;
        at = &(*at)->next;
    }
    *at = NULL;
    execs++;
    *exec = copy;
    return OK;
}
int cuGraphLaunch(void *exec, void *stream) {
    (void)stream;
    for (const Work *w = *(Work **)exec; w; w = w->next) do_work(w);
    return OK;
}
int cuGraphDestroy(void *graph) {
    work_free(*(Work **)graph);
    free(graph);
    graphs--;
    return OK;
}
int cuGraphExecDestroy(void *exec) {
    work_free(*(Work **)exec);
    free(exec);
    execs--;
    return OK;
}
