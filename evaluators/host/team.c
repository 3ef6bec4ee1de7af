/* The team of threads of an OpenMP kernel: made before a candidate is loaded, asleep between windows, awake inside.

   Speaks to libomp by its own interface, as compilers do, so that no header and no -fopenmp is needed here. */

struct place { int reserved_1, flags, reserved_2, reserved_3; const char *source; };
typedef void (*member_fn)(int *global, int *local, ...);

extern void __kmpc_fork_call(struct place *, int, member_fn, ...);
extern int __kmpc_global_thread_num(struct place *);
extern void __kmpc_push_num_threads(struct place *, int, int);
extern void kmp_set_blocktime(int);
extern void omp_set_num_threads(int);

enum { MEMBER_STACK = 1 << 16 };
static struct place here = {0, 2, 0, 0, ";tuner;team;0;0;;"};
static int members, present, spin_ms;

static void sign_in(int *global, int *local, ...) {
    (void)global, (void)local;
    __atomic_fetch_add(&present, 1, __ATOMIC_RELAXED);
}

/* A fault of any member is noted on a stack of its own, as one of the first thread is. */
static void stand_by(int *global, int *local, ...) {
    (void)global, (void)local;
    void *stack = mmap(0, MEMBER_STACK, PROT_RW, MAP_PRIVATE_ | MAP_ANONYMOUS_, -1, 0);
    struct stack_description alternate = {stack, 0, MEMBER_STACK};
    if (!failed(stack) && *local) sigaltstack(&alternate, 0);
}

/* Every member signs in, whatever the candidate has asked for since: one that does something else is missing. */
static int roll_call(void) {
    present = 0;
    __kmpc_push_num_threads(&here, __kmpc_global_thread_num(&here), members);
    __kmpc_fork_call(&here, 0, sign_in);
    return __atomic_load_n(&present, __ATOMIC_RELAXED) == members ? 0 : -1;
}

/* Awake: members wait for the next region as they do in an application, in a loop that needs no wake-up. */
static int team_wakes(void) {
    kmp_set_blocktime(spin_ms);
    return roll_call();
}

static int team_meets(void) { return roll_call(); }

/* Asleep: what a member uses of a processor from now on is none of the library's. */
static int team_rests(void) {
    kmp_set_blocktime(0);
    return roll_call();
}

/* How many a region of the candidate gets that asks for no number: all, one, two, all but one, in turn. What is right
   for one number only is seen so. */
static void team_varies(i64 turn, i64 varies) {
    int sizes[] = {members, 1, 2, members - 1}, size = sizes[varies ? turn % 4 : 0];
    omp_set_num_threads(size < 1 ? 1 : size > members ? members : size);
}

/* Makes a team that looks for work for so long before it sleeps; how many there are. */
int tuner_team(int threads, int spin) {
    members = threads;
    spin_ms = spin;
    roll_call();
    int there = present;
    __kmpc_fork_call(&here, 0, stand_by);
    team_rests();
    return there;
}
