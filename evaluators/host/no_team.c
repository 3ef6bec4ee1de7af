/* A kernel without OpenMP has no team. */

enum { TEAM = 0 };
static int team_wakes(void) { return 0; }
static int team_meets(void) { return 0; }
static int team_rests(void) { return 0; }
