/* A failing disk for one process, by LD_PRELOAD.
 *
 * Writes to files whose path contains FAILING_PATH fail with the error number FAILING_ERRNO, from the FAILING_FIRST-th
 * of them on. Each failure adds a byte to the file FAILING_COUNT, so that the campaign counts what has happened and not
 * what it meant to do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

typedef ssize_t (*write_fn)(int, const void *, size_t);
typedef ssize_t (*pwrite_fn)(int, const void *, size_t, off_t);

static int fails(int file) {
    static int seen = 0;
    const char *wanted = getenv("FAILING_PATH"), *first = getenv("FAILING_FIRST");
    char link[64], path[PATH_MAX];
    if (wanted == NULL || first == NULL)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0)
        return 0;
    path[length] = 0;
    if (strstr(path, wanted) == NULL || __sync_add_and_fetch(&seen, 1) < atoi(first))
        return 0;
    int count = open(getenv("FAILING_COUNT"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (count >= 0) {
        write_fn next = (write_fn)dlsym(RTLD_NEXT, "write");
        (void)!next(count, "x", 1);
        close(count);
    }
    errno = atoi(getenv("FAILING_ERRNO"));
    return 1;
}

ssize_t write(int file, const void *data, size_t size) {
    write_fn next = (write_fn)dlsym(RTLD_NEXT, "write");
    return fails(file) ? -1 : next(file, data, size);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t place) {
    pwrite_fn next = (pwrite_fn)dlsym(RTLD_NEXT, "pwrite");
    return fails(file) ? -1 : next(file, data, size, place);
}

ssize_t pwrite64(int file, const void *data, size_t size, off_t place) {
    pwrite_fn next = (pwrite_fn)dlsym(RTLD_NEXT, "pwrite64");
    return fails(file) ? -1 : next(file, data, size, place);
}
