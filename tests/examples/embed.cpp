// SPDX-License-Identifier: Apache-2.0
// A compiled model in a C++ program. c++ -std=c++17 embed.cpp -I WEIR -o embed && ./embed ./mnist.so prints "digit 1".
#include <algorithm>
#include <array>
#include <cstdio>
#include <dlfcn.h>
#include <memory>
#include <stdexcept>
#include <string>

#include "runtime/weir_model.h"

// One instance of a model; a failure is an exception with the model's own words.
class Model {
    std::unique_ptr<void, int (*)(void *)> library;
    const weir_model *model;
    weir_instance *instance = nullptr;

    static const weir_model *descriptor(void *library) {
        if (!library) throw std::runtime_error(dlerror());
        auto get = reinterpret_cast<weir_model_fn *>(dlsym(library, WEIR_MODEL_SYMBOL));
        if (!get) throw std::runtime_error("this is no compiled model");
        return get();
    }

  public:
    explicit Model(const std::string &path)
        : library(dlopen(path.c_str(), RTLD_NOW), dlclose), model(descriptor(library.get())) {
        char error[256];
        if (weir_create(model, nullptr, &instance, error)) throw std::runtime_error(error);
    }
    Model(const Model &) = delete;
    Model &operator=(const Model &) = delete;
    ~Model() { weir_destroy(model, instance); }

    void run(const weir_tensor &in, weir_tensor &out) {
        if (weir_run(model, instance, &in, &out)) throw std::runtime_error(model->error(instance));
    }
};

int main(int argc, char **argv) try {
    Model model(argc > 1 ? argv[1] : "./mnist.so");
    std::array<float, 28 * 28> image{};
    std::array<float, 10> score{};
    for (int y = 4; y < 24; y++) image[28 * y + 13] = image[28 * y + 14] = 255;
    weir_tensor in{}, out{};
    in.data = image.data();
    in.dtype = WEIR_F32;
    in.rank = 4;
    std::copy_n(std::array<int64_t, 4>{1, 1, 28, 28}.begin(), 4, in.dims);
    out.data = score.data();
    out.capacity = score.size();
    model.run(in, out);
    std::printf("digit %d\n", int(std::max_element(score.begin(), score.end()) - score.begin()));
} catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
