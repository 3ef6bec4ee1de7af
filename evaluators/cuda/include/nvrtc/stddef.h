/* NVRTC knows size_t, ptrdiff_t and NULL itself. */
#pragma once
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
