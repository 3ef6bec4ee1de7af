/* Atomic functions of CUDA C++ over clang's scoped atomics: relaxed, at the scope that the name says.
   Source: CUDA C++ Programming Guide, atomic functions. */
#pragma once

#define TUNER_ATOMICS(suffix, scope)                                                                              \
    TUNER_ATOMIC_2(atomicAdd##suffix, add, scope, TUNER_ADDED)                                                    \
    TUNER_ATOMIC_2(atomicSub##suffix, sub, scope, TUNER_SUBTRACTED)                                               \
    TUNER_ATOMIC_2(atomicMin##suffix, min, scope, TUNER_ORDERED)                                                  \
    TUNER_ATOMIC_2(atomicMax##suffix, max, scope, TUNER_ORDERED)                                                  \
    TUNER_ATOMIC_2(atomicAnd##suffix, and, scope, TUNER_BITS)                                                     \
    TUNER_ATOMIC_2(atomicOr##suffix, or, scope, TUNER_BITS)                                                       \
    TUNER_ATOMIC_2(atomicXor##suffix, xor, scope, TUNER_BITS)                                                     \
    TUNER_EXCHANGED(TUNER_EXCHANGE, atomicExch##suffix, , scope)                                                  \
    TUNER_COMPARED(TUNER_COMPARE, atomicCAS##suffix, , scope)                                                     \
    TUNER_INLINE unsigned atomicInc##suffix(unsigned *at, unsigned most) {                                        \
        return __uAtomicInc##suffix(at, most);                                                                    \
    }                                                                                                             \
    TUNER_INLINE unsigned atomicDec##suffix(unsigned *at, unsigned most) {                                        \
        return __uAtomicDec##suffix(at, most);                                                                    \
    }

#define TUNER_ATOMIC_2(name, operation, scope, types) types(TUNER_FETCH, name, operation, scope)
#define TUNER_BITS(make, name, operation, scope)                                                                  \
    make(int, name, operation, scope) make(unsigned, name, operation, scope)                                      \
    make(unsigned long long, name, operation, scope)
#define TUNER_ORDERED(make, name, operation, scope)                                                               \
    TUNER_BITS(make, name, operation, scope) make(long long, name, operation, scope)
#define TUNER_SUBTRACTED(make, name, operation, scope)                                                            \
    make(int, name, operation, scope) make(unsigned, name, operation, scope)
#define TUNER_ADDED(make, name, operation, scope)                                                                 \
    TUNER_BITS(make, name, operation, scope) make(float, name, operation, scope) make(double, name, operation, scope)
#define TUNER_EXCHANGED(make, name, operation, scope)                                                             \
    TUNER_BITS(make, name, operation, scope) make(float, name, operation, scope)
#define TUNER_COMPARED(make, name, operation, scope)                                                              \
    TUNER_BITS(make, name, operation, scope) make(unsigned short, name, operation, scope)

#define TUNER_FETCH(T, name, operation, scope)                                                                    \
    TUNER_INLINE T name(T *at, T value) {                                                                         \
        return __scoped_atomic_fetch_##operation(at, value, __ATOMIC_RELAXED, scope);                             \
    }
#define TUNER_EXCHANGE(T, name, operation, scope)                                                                 \
    TUNER_INLINE T name(T *at, T value) {                                                                         \
        T before;                                                                                                 \
        __scoped_atomic_exchange(at, &value, &before, __ATOMIC_RELAXED, scope);                                   \
        return before;                                                                                            \
    }
#define TUNER_COMPARE(T, name, operation, scope)                                                                  \
    TUNER_INLINE T name(T *at, T expected, T wanted) {                                                            \
        __scoped_atomic_compare_exchange_n(at, &expected, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED, scope); \
        return expected;                                                                                          \
    }

TUNER_ATOMICS(, __MEMORY_SCOPE_DEVICE)
TUNER_ATOMICS(_block, __MEMORY_SCOPE_WRKGRP)
TUNER_ATOMICS(_system, __MEMORY_SCOPE_SYSTEM)
