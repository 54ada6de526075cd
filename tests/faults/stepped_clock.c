/* For whoever preloads this, CLOCK_REALTIME is off by the nanoseconds that the file CLOCK_OFFSET holds; no other clock. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t second_ns = 1000000000;
static const volatile int64_t *offset_ns;

__attribute__((constructor)) static void open_offset(void) {
    const char *path = getenv("CLOCK_OFFSET");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *found = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (found == MAP_FAILED)
        abort();
    close(file);
    offset_ns = found;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (failed || clock != CLOCK_REALTIME || !offset_ns)
        return failed;
    int64_t ns = now->tv_sec * second_ns + now->tv_nsec + *offset_ns;
    now->tv_sec = ns / second_ns;
    now->tv_nsec = ns % second_ns;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise))
        return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *stored) {
    struct timespec precise;
    if (clock_gettime(CLOCK_REALTIME, &precise))
        return -1;
    if (stored)
        *stored = precise.tv_sec;
    return precise.tv_sec;
}
