/* A kernel without OpenMP has no team. */

static void team_varies(i64 turn, i64 varies) { (void)turn, (void)varies; }
static int team_wakes(void) { return 0; }
static int team_meets(void) { return 0; }
static int team_rests(void) { return 0; }
