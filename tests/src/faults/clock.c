/* A wall clock that can be moved while a program runs: preloaded into it, this adds to the time of day as many seconds as
 * the file that WEIR_FAULT_CLOCK names begins with, as a signed 64-bit number. The monotonic clock is left alone, as the
 * kernel leaves it when the time is set. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *moved;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("WEIR_FAULT_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *at = mmap(NULL, sizeof *moved, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (at != MAP_FAILED)
        moved = at;
}

int clock_gettime(clockid_t id, struct timespec *into) {
    int outcome = (int)syscall(SYS_clock_gettime, id, into);
    if (outcome == 0 && moved && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        into->tv_sec += *moved;
    return outcome;
}

int gettimeofday(struct timeval *into, void *zone) {
    struct timespec now;
    (void)zone;
    int outcome = clock_gettime(CLOCK_REALTIME, &now);
    into->tv_sec = now.tv_sec;
    into->tv_usec = now.tv_nsec / 1000;
    return outcome;
}

time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into)
        *into = now.tv_sec;
    return now.tv_sec;
}
