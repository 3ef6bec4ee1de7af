/* How many calls there were, of each signature and each reason why one cannot be recorded, and how long they took.
 *
 * In a file that is shared memory: it outlives a process that is killed, is the same in processes that a fork makes, and
 * costs a call no system call. The first entry is the function's name. Follows common.c.
 */

enum { CALL_KINDS = 1 << 12, CALL_TRIES = 16, CALL_WORDS = 224 };
struct call_kind { uint64_t state, sign, calls, nanoseconds; char why[CALL_WORDS]; };
enum { UNUSED, BEING_MADE, MADE };

static struct call_kind *call_kinds;

/* By the first call: most processes of a script make none. Nothing for another thread that comes meanwhile. */
static struct call_kind *open_calls(void)
{
    static int asked_for;
    if (__atomic_exchange_n(&asked_for, 1, __ATOMIC_ACQ_REL)) return NULL;
    struct call_kind *made = open_shared("calls", "", CALL_KINDS * sizeof *made);
    if (made) snprintf(made[0].why, CALL_WORDS, "%s", ENTRY);
    __atomic_store_n(&call_kinds, made, __ATOMIC_RELEASE);
    return made;
}

/* One that another thread is making is passed over: two of one kind are added up later. */
static struct call_kind *kind_of(struct call_kind *kinds, uint64_t sign, const char *why)
{
    uint64_t at = (sign ^ strlen(why)) * 0x9E3779B97F4A7C15u >> 40;
    for (int i = 0; i < CALL_TRIES; i++) {
        struct call_kind *one = &kinds[1 + (at + (uint64_t)i) % (CALL_KINDS - 1)];
        uint64_t state = UNUSED;
        if (__atomic_compare_exchange_n(&one->state, &state, BEING_MADE, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            one->sign = sign;
            snprintf(one->why, CALL_WORDS, "%s", why);
            __atomic_store_n(&one->state, MADE, __ATOMIC_RELEASE);
            return one;
        }
        if (state == MADE && one->sign == sign && !strcmp(one->why, why)) return one;
    }
    return NULL;
}

/* Where there are too many kinds, they are counted together, as of signature 0. */
static void count_call(uint64_t sign, double seconds, const char *why)
{
    struct call_kind *kinds = __atomic_load_n(&call_kinds, __ATOMIC_ACQUIRE), *one = NULL;
    if (kinds || (kinds = open_calls())) one = kind_of(kinds, sign, why);
    if (!one && kinds) one = kind_of(kinds, 0, why);
    if (!one) {
        say("launch\t%s\t0\t%016lx\t%.9f\t%s", ENTRY, (unsigned long)sign, seconds, why);
        return;
    }
    __atomic_fetch_add(&one->calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&one->nanoseconds, (uint64_t)(seconds * 1e9 + 0.5), __ATOMIC_RELAXED);
}

/* Looking at a call takes half a microsecond. An application that makes millions of shorter ones would run for many times
 * as long: after MANY of them, of which the last ones are SHORT, calls are counted alone.
 */
enum { MANY = 1 << 18, LAST = 1 << 16, SHORT_NANOSECONDS = 300 };

/* By one thread at a time. */
static void look_less(double seconds)
{
    static uint64_t looked_at_so_far;
    static double last_s;
    last_s += seconds;
    if (++looked_at_so_far % LAST) return;
    struct call_kind *kinds = __atomic_load_n(&call_kinds, __ATOMIC_ACQUIRE), *one = NULL;
    if (looked_at_so_far >= MANY && kinds && last_s < 1e-9 * SHORT_NANOSECONDS * LAST)
        one = kind_of(kinds, 0, "after many calls that are shorter than looking at one takes, they are counted alone");
    if (one) count_only(&one->calls);
    last_s = 0;
}
