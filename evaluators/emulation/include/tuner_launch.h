/* How the launch function calls a kernel: by value, each parameter from its slot, as a CUDA launch does. */
#pragma once

#define EMU_UNCHECKED __attribute__((no_sanitize("thread", "undefined")))

struct emu_array {
    void *begin;
    long long flags;
};
extern "C" __device__ void emu_launch(long long *words, const emu_array *arrays, long long count,
                                      unsigned long long *report, void **slots, void (*kernel)(void **));
template <int... S> struct emu_sizes {};
template <int... I> struct emu_numbers {};
template <class T, T... I> using emu_sequence = emu_numbers<I...>;

template <auto Kernel, class... P, int... S, int... I>
EMU_UNCHECKED static __device__ void emu_call(void (*)(P...), emu_sizes<S...>, emu_numbers<I...>, void **slots) {
    static_assert(((sizeof(P) == S) && ...), "an argument of the spec has another size than the kernel's parameter");
    Kernel(*(P *)slots[I]...);
}
template <auto Kernel, class... P, int... S>
EMU_UNCHECKED static __device__ void emu_start(void (*kernel)(P...), emu_sizes<S...> sizes, void **slots) {
    static_assert(sizeof...(P) == sizeof...(S), "the spec has another number of arguments than the kernel");
    if constexpr (sizeof...(P) == sizeof...(S))
        emu_call<Kernel>(kernel, sizes, __make_integer_seq<emu_sequence, int, sizeof...(P)>{}, slots);
}
