/* SPDX-License-Identifier: Apache-2.0 */
/* One run of a compiled model on tensors of the host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/tensors.h"

void tensors_free(HostTensor *t, int n) {
    for (int i = 0; i < n; i++) host_free(&t[i]);
}

enum { FIRST_ROOM = 1 << 28 }; /* bytes */

static bool is_huge(const weir_tensor *t) {
    double bytes = dtype_bits_of(t->dtype) / 8.0;
    for (int d = 0; d < t->rank; d++) bytes *= (double)t->dims[d];
    return bytes > FIRST_ROOM;
}

/* Memory for outputs of the dims in `out`; a dim without a bound (-1) counts as 1 for now. Bounds
 * may be far above what a run makes, so at first no output gets more than FIRST_ROOM: a run that
 * needs more tells the dims. */
static bool room_for(const weir_model *m, weir_tensor *out, HostTensor *outputs, bool first,
                     char *error) {
    for (int i = 0; i < m->noutputs; i++) {
        for (int d = 0; d < out[i].rank; d++)
            if (out[i].dims[d] < 0) out[i].dims[d] = 1;
        bool object = host_is_object(out[i].dtype); /* the run allocates */
        bool less = first && is_huge(&out[i]);
        out[i].capacity = less ? FIRST_ROOM / 16 : host_count(&out[i]);
        size_t bytes = less ? FIRST_ROOM : (size_t)host_bytes(&out[i]);
        out[i].data = object ? NULL : calloc(bytes + 64, 1);
        outputs[i] = (HostTensor){
            .name = host_text(m->outputs[i].name), .t = out[i], .object = m->outputs[i].object};
        if (!out[i].data && !object)
            return snprintf(error, 512, "out of memory for output \"%s\"", m->outputs[i].name),
                   false;
    }
    return true;
}

bool host_run(const weir_model *m, weir_instance *instance, const HostTensor *inputs,
              HostTensor *outputs, char *error) {
    weir_tensor *in = host_alloc((size_t)m->ninputs, sizeof *in),
                *out = host_alloc((size_t)m->noutputs, sizeof *out);
    memset(outputs, 0, (size_t)m->noutputs * sizeof *outputs);
    for (int i = 0; i < m->ninputs; i++) in[i] = inputs[i].t;
    weir_status status = m->shapes(instance, in, out);
    bool ok = true;
    for (int round = 0; ok && (round == 0 || (status == WEIR_E_CAPACITY && round < 8)); round++) {
        tensors_free(outputs, m->noutputs);
        memset(outputs, 0, (size_t)m->noutputs * sizeof *outputs);
        ok = room_for(m, out, outputs, round == 0, error);
        if (ok && (round || status == WEIR_OK)) status = weir_run(m, instance, in, out);
    }
    if (ok && status != WEIR_OK) ok = (snprintf(error, 512, "%s", m->error(instance)), false);
    for (int i = 0; ok && i < m->noutputs; i++) outputs[i].t = out[i];
    if (!ok) tensors_free(outputs, m->noutputs);
    free(in);
    free(out);
    return ok;
}
