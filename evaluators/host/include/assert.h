/* <assert.h> for a machine without a C library's headers; searched last, so that real headers win.
   No include guard, as the standard has it: each inclusion follows NDEBUG anew. */
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : __builtin_trap())
#endif
#ifndef __cplusplus
#undef static_assert
#define static_assert _Static_assert
#endif
