#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#include "ir/nest.h"
#include "ir/graph.h"
#include "runtime/call.h"
__attribute__((weak)) void graph_verify(const Graph*g){(void)g;}
__attribute__((weak)) void flow_verify(const Flow*g){(void)g;}
__attribute__((weak)) void nest_verify(const Nest*g){(void)g;}
__attribute__((weak)) void graph_print(Text*t,const Graph*g){(void)t;(void)g;}
__attribute__((weak)) void weir_call_nonzero(weir_call*c){(void)c;}
__attribute__((weak)) int64_t weir_call_nonzero_scratch(const weir_call*c){(void)c;return 0;}
