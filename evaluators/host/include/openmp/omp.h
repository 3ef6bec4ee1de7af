/* Routines of the OpenMP API (specification 5.2, chapter 18) for a library that comes without this header. */

#ifndef TUNER_OMP_H
#define TUNER_OMP_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum omp_sched_t {
    omp_sched_static = 1,
    omp_sched_dynamic = 2,
    omp_sched_guided = 3,
    omp_sched_auto = 4,
    omp_sched_monotonic = (int)0x80000000u
} omp_sched_t;

typedef enum omp_proc_bind_t {
    omp_proc_bind_false = 0,
    omp_proc_bind_true = 1,
    omp_proc_bind_primary = 2,
    omp_proc_bind_master = 2,
    omp_proc_bind_close = 3,
    omp_proc_bind_spread = 4
} omp_proc_bind_t;

typedef struct omp_lock_t { void *_lk; } omp_lock_t;
typedef struct omp_nest_lock_t { void *_lk; } omp_nest_lock_t;

/* Threads and teams */
extern void omp_set_num_threads(int), omp_set_dynamic(int), omp_set_nested(int), omp_set_max_active_levels(int);
extern int omp_get_num_threads(void), omp_get_max_threads(void), omp_get_thread_num(void),
    omp_get_num_procs(void), omp_in_parallel(void), omp_in_final(void), omp_get_dynamic(void),
    omp_get_nested(void), omp_get_thread_limit(void), omp_get_max_active_levels(void),
    omp_get_supported_active_levels(void), omp_get_level(void), omp_get_active_level(void),
    omp_get_ancestor_thread_num(int), omp_get_team_size(int), omp_get_cancellation(void),
    omp_get_max_task_priority(void);

/* Schedules and places */
extern void omp_set_schedule(omp_sched_t, int), omp_get_schedule(omp_sched_t *, int *);
extern omp_proc_bind_t omp_get_proc_bind(void);
extern int omp_get_num_places(void), omp_get_place_num(void), omp_get_place_num_procs(int);

/* Locks */
extern void omp_init_lock(omp_lock_t *), omp_destroy_lock(omp_lock_t *), omp_set_lock(omp_lock_t *),
    omp_unset_lock(omp_lock_t *), omp_init_nest_lock(omp_nest_lock_t *),
    omp_destroy_nest_lock(omp_nest_lock_t *), omp_set_nest_lock(omp_nest_lock_t *),
    omp_unset_nest_lock(omp_nest_lock_t *);
extern int omp_test_lock(omp_lock_t *), omp_test_nest_lock(omp_nest_lock_t *);

/* Time */
extern double omp_get_wtime(void), omp_get_wtick(void);

/* Devices and teams: the host alone */
extern int omp_get_num_devices(void), omp_get_default_device(void), omp_is_initial_device(void),
    omp_get_num_teams(void), omp_get_team_num(void);
extern void omp_set_default_device(int);

#ifdef __cplusplus
}
#endif

#endif
