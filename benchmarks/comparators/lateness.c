/*
 * The open loop in C: epoll, timerfd, the least timer slack. What punctuality this machine has to give.
 *
 *     lateness ADDRESS PORT RATE SECONDS CONNECTIONS < request
 *
 * Sends the request that it reads, RATE times a second for SECONDS, each on a connection that has none under way; an
 * answer is whatever a connection reads. Request i is due at start + i / RATE; it is late by the clock just before
 * send() less that. With no connection free the next waits, and its wait counts. Prints a line of JSON; times in ns.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST_BYTES = 1 << 16, EVENTS = 64, BURST = 16 };
static const int64_t SECOND_NS = 1000000000, LEAD_NS = 200000000, DRAIN_NS = 2000000000;

static char request[REQUEST_BYTES], answer[REQUEST_BYTES];
static size_t request_bytes;

static void fail(const char *what) {
    if (errno) perror(what);
    else fprintf(stderr, "%s\n", what);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static double cpu_s(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static int ascending(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static void read_request(void) {
    ssize_t got;
    while ((got = read(STDIN_FILENO, request + request_bytes, REQUEST_BYTES - request_bytes)) > 0) request_bytes += got;
    if (got < 0 || request_bytes == 0) fail("reading the request");
}

static void watch(int poll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event)) fail("epoll_ctl");
}

static int connect_to(const char *address, int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (inet_pton(AF_INET, address, &to.sin_addr) != 1 || connect(fd, (struct sockaddr *)&to, sizeof to)) fail("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void ring_at(int timer, int64_t due_ns) {
    struct itimerspec at = {.it_value = {due_ns / SECOND_NS, due_ns % SECOND_NS}};
    if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL)) fail("timerfd_settime");
}

int main(int count, char **words) {
    if (count != 6) {
        fprintf(stderr, "usage: lateness ADDRESS PORT RATE SECONDS CONNECTIONS < request\n");
        return 2;
    }
    double rate = atof(words[3]), seconds = atof(words[4]);
    int connections = atoi(words[5]), events = (int)(rate * seconds), idle = 0, next = 0, answered = 0;
    if (events < 1 || connections < 1) fail("RATE, SECONDS and CONNECTIONS have to be positive");
    int64_t *late_ns = calloc(events, sizeof *late_ns);
    int *free_fds = calloc(connections, sizeof *free_fds);
    if (!late_ns || !free_fds) fail("calloc");
    read_request();
    prctl(PR_SET_TIMERSLACK, 1UL);
    int poll = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    if (poll < 0 || timer < 0) fail("epoll and timerfd");
    watch(poll, timer);
    while (idle < connections) watch(poll, free_fds[idle++] = connect_to(words[1], atoi(words[2])));

    double used_s = cpu_s();
    int64_t start_ns = now_ns() + LEAD_NS, end_ns = start_ns + (int64_t)(seconds * SECOND_NS) + DRAIN_NS;
    ring_at(timer, start_ns);
    while ((next < events || answered < next) && now_ns() < end_ns) {
        struct epoll_event ready[EVENTS];
        int many = epoll_wait(poll, ready, EVENTS, 100);
        for (int at = 0; at < many; at++) {
            int fd = ready[at].data.fd;
            ssize_t got = read(fd, fd == timer ? (char *)&(uint64_t){0} : answer, fd == timer ? 8 : REQUEST_BYTES);
            if (fd == timer) continue; /* EAGAIN: it was set anew since it rang */
            if (got <= 0) fail("the server ended a connection");
            free_fds[idle++] = fd;
            answered++;
        }
        for (int begun = 0; next < events && idle > 0; begun++) {
            int64_t due_ns = start_ns + (int64_t)(next * (SECOND_NS / rate)), sent_ns = now_ns();
            if (due_ns > sent_ns || begun == BURST) {
                ring_at(timer, due_ns); /* at once if it is over: answers get their turn first */
                break;
            }
            late_ns[next++] = sent_ns - due_ns;
            if (send(free_fds[--idle], request, request_bytes, MSG_NOSIGNAL) != (ssize_t)request_bytes) fail("send");
        }
    }
    used_s = cpu_s() - used_s;
    qsort(late_ns, next, sizeof *late_ns, ascending);
    if (next == 0) fail("nothing was sent");
#define LATE(q) (long long)late_ns[(int)((q) * (next - 1))]
    printf("{\"events\": %d, \"sent\": %d, \"answered\": %d, \"p50_ns\": %lld, \"p90_ns\": %lld, \"p99_ns\": %lld, "
           "\"p999_ns\": %lld, \"max_ns\": %lld, \"cpu_us_per_request\": %.2f}\n",
           events, next, answered, LATE(0.5), LATE(0.9), LATE(0.99), LATE(0.999), LATE(1.0), used_s * 1e6 / next);
    return 0;
}
