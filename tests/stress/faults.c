/* Failing system calls, for faults.py: a library for LD_PRELOAD on Linux with glibc.
 *
 * Calls on files below one folder (the root) are logged and, where asked, fail as a broken disk lets them fail. A call is
 * named by its kind, its path below the root and how many calls of that kind on that path came before: threads may
 * change the order of all calls, but hardly this one. What makes temporary names unique is written as `*`: eight
 * hexadecimal digits between dots (ours), six characters after `.tmp` (of safetensors).
 *
 * What a fault does to the call:
 *   fail   nothing is done and the error is returned (a close does close: so does the system)
 *   short  half of the bytes are read or written and counted as such, which is no error
 *   torn   half of the bytes are written and the error is returned
 *   lose   of a sync: all bytes since the last good sync become zero and the error is returned
 * After the fault, every call of the kinds in `lasting` fails with the same error, on any path below the root.
 *
 * glibc calls itself past this library: stdio reads and writes by its own, so fopen, fread, fwrite, fflush and fclose are
 * caught as well. Calls are made by syscall(2) rather than by looking up the next library, where the arguments allow.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

_Static_assert(sizeof(off_t) == 8 && sizeof(long) == 8, "written for systems with 64 bits");

enum How { FAIL, SHORT, TORN, LOSE };
#define NOTHING ((enum How) - 1)
#define LONGEST (2 * PATH_MAX)
#define INODES 4096

static int armed, log_file = -1, error_number, happened;
static long nth, counted;
static enum How how;
static char root[PATH_MAX], wanted_kind[32], wanted_path[LONGEST], lasting[256];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct { dev_t device; ino_t inode; off_t synced; } inodes[INODES];
static int n_inodes;

/* Begin to log, and to fail the nth call (from 1) of a kind on a path; kind "" is any kind, path "" any path, and
 * nth 0 only logs. The log is a file descriptor. */
void faults_arm(const char *folder, int log, const char *kind, const char *path, long number, int what, int error,
                const char *then) {
    snprintf(root, sizeof root, "%s", folder);
    snprintf(wanted_kind, sizeof wanted_kind, "%s", kind);
    snprintf(wanted_path, sizeof wanted_path, "%s", path);
    snprintf(lasting, sizeof lasting, ",%s,", then);
    log_file = log, nth = number, how = (enum How)what, error_number = error;
    counted = happened = n_inodes = 0;
    armed = 1;
}

/* A path below the root, or NULL. */
static const char *below(const char *path) {
    size_t length = strlen(root);
    if (strncmp(path, root, length) != 0) return NULL;
    return path[length] == '/' ? path + length + 1 : path[length] == 0 ? "." : NULL;
}

static int link_text(const char *link, char *found) {
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, found, PATH_MAX - 1);
    if (length < 0) return 0;
    found[length] = 0;
    char *gone = strstr(found, " (deleted)");
    if (gone && gone[10] == 0) *gone = 0;
    return 1;
}

static int path_of(int descriptor, char *found) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    return link_text(link, found);
}

static void whole_path(int folder, const char *path, char *found) {
    char base[PATH_MAX];
    if (path[0] == '/') {
        snprintf(found, LONGEST, "%s", path);
    } else if (folder == AT_FDCWD ? link_text("/proc/self/cwd", base) : path_of(folder, base)) {
        snprintf(found, LONGEST, strcmp(path, ".") ? "%s/%s" : "%s", base, path);
    } else {
        found[0] = 0;
    }
}

static int is_hexadecimal(const char *text) {
    for (int i = 0; i < 8; i++)
        if (!strchr("0123456789abcdef", text[i]) || !text[i]) return 0;
    return 1;
}

/* The path without what makes temporary names unique. */
static void generic(const char *path, char *written) {
    char *end = written + LONGEST - 1;
    while (*path && written < end) {
        *written++ = *path++;
        if (path[-1] == '.' && is_hexadecimal(path) && path[8] == '.') {
            *written++ = '*';
            path += 8;
        }
        if (strncmp(path, ".tmp", 4) == 0 && strlen(path) == 10 && path[-1] == '/') {
            strcpy(written, ".tmp*");
            return;
        }
    }
    *written = 0;
}

static int is_lasting(const char *kind) {
    char word[40];
    snprintf(word, sizeof word, ",%s,", kind);
    return strstr(lasting, word) != NULL;
}

/* What becomes of a call on an absolute path: NOTHING, or what a fault does to it. Writes the log. */
static enum How fate(const char *kind, const char *path) {
    char line[LONGEST + 64], named[LONGEST];
    const char *relative = below(path);
    if (!relative) return NOTHING;
    int before = errno;
    generic(relative, named);
    enum How found = NOTHING;
    pthread_mutex_lock(&mutex);
    if (happened && is_lasting(kind)) {
        found = FAIL;
    } else if (!happened && nth && (!wanted_kind[0] || !strcmp(kind, wanted_kind)) &&
               (!wanted_path[0] || !strcmp(named, wanted_path)) && ++counted == nth) {
        found = how;
        happened = 1;
    }
    pthread_mutex_unlock(&mutex);
    int length = snprintf(line, sizeof line, "%s\t%s\t%s\n", found == NOTHING ? "" : "!", kind, named);
    syscall(SYS_write, log_file, line, (size_t)length);
    errno = before;
    return found;
}

static enum How fate_at(const char *kind, int folder, const char *path) {
    char found[LONGEST];
    if (!armed || !path) return NOTHING;
    whole_path(folder, path, found);
    return fate(kind, found);
}

static enum How fate_of(const char *kind, int descriptor) {
    char found[LONGEST];
    if (!armed || descriptor < 0) return NOTHING;
    int before = errno, known = path_of(descriptor, found);
    errno = before;
    return known ? fate(kind, found) : NOTHING;
}

static int failed(void) {
    errno = error_number;
    return -1;
}

/* How much of each file is surely on the disk: what was there when it was opened, and what was synced since. */
static off_t *synced_size(int descriptor, int make) {
    struct stat about;
    if (syscall(SYS_fstat, descriptor, &about) < 0 || !S_ISREG(about.st_mode)) return NULL;
    for (int i = 0; i < n_inodes; i++)
        if (inodes[i].device == about.st_dev && inodes[i].inode == about.st_ino) return &inodes[i].synced;
    if (!make || n_inodes == INODES) return NULL;
    inodes[n_inodes].device = about.st_dev, inodes[n_inodes].inode = about.st_ino;
    inodes[n_inodes].synced = about.st_size;
    return &inodes[n_inodes++].synced;
}

static void opened(int descriptor, int flags) {
    int before = errno;
    pthread_mutex_lock(&mutex);
    off_t *synced = synced_size(descriptor, 1);
    if (synced && flags & (O_TRUNC | O_EXCL)) *synced = 0;
    pthread_mutex_unlock(&mutex);
    errno = before;
}

static void synced(int descriptor) {
    struct stat about;
    pthread_mutex_lock(&mutex);
    off_t *size = synced_size(descriptor, 1);
    if (size && syscall(SYS_fstat, descriptor, &about) == 0) *size = about.st_size;
    pthread_mutex_unlock(&mutex);
}

static void lose(int descriptor) {
    char link[40];
    static const char zeros[4096];
    struct stat about;
    pthread_mutex_lock(&mutex);
    off_t *size = synced_size(descriptor, 0);
    pthread_mutex_unlock(&mutex);
    if (!size || syscall(SYS_fstat, descriptor, &about) < 0) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    long own = syscall(SYS_openat, AT_FDCWD, link, O_WRONLY | O_CLOEXEC, 0);
    for (off_t place = *size; own >= 0 && place < about.st_size;) {
        size_t left = (size_t)(about.st_size - place);
        long done = syscall(SYS_pwrite64, (int)own, zeros, left < sizeof zeros ? left : sizeof zeros, place);
        if (done <= 0) break;
        place += done;
    }
    if (own >= 0) syscall(SYS_close, (int)own);
}

#define ALIAS(name, of) extern __typeof__(of) name __attribute__((alias(#of)))
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* open, create: create is every open that may change something */

static int open_at(int folder, const char *path, int flags, mode_t mode) {
    int writes = (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);
    if (fate_at(writes ? "create" : "open", folder, path) != NOTHING) return failed();
    int found = (int)syscall(SYS_openat, folder, path, flags, mode);
    if (armed && writes && found >= 0) opened(found, flags);
    return found;
}

#define MODE(last) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, last); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) { MODE(flags) return open_at(AT_FDCWD, path, flags, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE(flags) return open_at(folder, path, flags, mode); }
int creat(const char *path, mode_t mode) { return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int __open_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
int __openat_2(int folder, const char *path, int flags) { return open_at(folder, path, flags, 0); }
ALIAS(open64, open);
ALIAS(openat64, openat);
ALIAS(creat64, creat);
ALIAS(__open64_2, __open_2);
ALIAS(__openat64_2, __openat_2);

FILE *fopen(const char *path, const char *mode) {
    int writes = mode[0] != 'r' || strchr(mode, '+') != NULL;
    if (fate_at(writes ? "create" : "open", AT_FDCWD, path) != NOTHING) return failed(), NULL;
    FILE *found = NEXT(fopen)(path, mode);
    if (armed && writes && found) opened(fileno(found), mode[0] == 'w' ? O_TRUNC : 0);
    return found;
}
ALIAS(fopen64, fopen);

DIR *opendir(const char *path) {
    return fate_at("list", AT_FDCWD, path) == NOTHING ? NEXT(opendir)(path) : (failed(), NULL);
}
DIR *fdopendir(int descriptor) {
    return fate_of("list", descriptor) == NOTHING ? NEXT(fdopendir)(descriptor) : (failed(), NULL);
}

/* read, write */

static size_t half(size_t count) { return count > 1 ? count / 2 : count; }

/* Cut the vectors in half; how many are left. */
static int halved(const struct iovec *given, int count, struct iovec *kept) {
    size_t all = 0, left;
    for (int i = 0; i < count; i++) all += given[i].iov_len;
    left = half(all);
    int n = 0;
    for (; n < count && left; n++) {
        kept[n] = given[n];
        if (kept[n].iov_len > left) kept[n].iov_len = left;
        left -= kept[n].iov_len;
    }
    return n;
}

static ssize_t moved(const char *kind, long number, int descriptor, const struct iovec *given, int count, off_t place) {
    enum How found = fate_of(kind, descriptor);
    struct iovec kept[IOV_MAX];
    if (found == FAIL || found == LOSE || count > IOV_MAX) return failed();
    if (found != NOTHING) {
        count = halved(given, count, kept);
        given = kept;
    }
    long done = syscall(number, descriptor, given, count, place, 0L);
    return found == TORN ? failed() : done;
}

#define VECTOR struct iovec one = {(void *)data, count}

ssize_t read(int file, void *data, size_t count) {
    VECTOR;
    return armed ? moved("read", SYS_readv, file, &one, 1, 0) : syscall(SYS_read, file, data, count);
}
ssize_t pread(int file, void *data, size_t count, off_t place) {
    VECTOR;
    return armed ? moved("read", SYS_preadv, file, &one, 1, place) : syscall(SYS_pread64, file, data, count, place);
}
ssize_t write(int file, const void *data, size_t count) {
    VECTOR;
    return armed ? moved("write", SYS_writev, file, &one, 1, 0) : syscall(SYS_write, file, data, count);
}
ssize_t pwrite(int file, const void *data, size_t count, off_t place) {
    VECTOR;
    return armed ? moved("write", SYS_pwritev, file, &one, 1, place) : syscall(SYS_pwrite64, file, data, count, place);
}
ssize_t __read_chk(int file, void *data, size_t count, size_t size) { return (void)size, read(file, data, count); }
ssize_t __pread_chk(int file, void *data, size_t count, off_t place, size_t size) {
    return (void)size, pread(file, data, count, place);
}
ssize_t readv(int file, const struct iovec *all, int count) { return moved("read", SYS_readv, file, all, count, 0); }
ssize_t writev(int file, const struct iovec *all, int count) { return moved("write", SYS_writev, file, all, count, 0); }
ssize_t preadv(int file, const struct iovec *all, int count, off_t place) {
    return moved("read", SYS_preadv, file, all, count, place);
}
ssize_t pwritev(int file, const struct iovec *all, int count, off_t place) {
    return moved("write", SYS_pwritev, file, all, count, place);
}
ALIAS(pread64, pread);
ALIAS(pwrite64, pwrite);
ALIAS(__pread64_chk, __pread_chk);
ALIAS(preadv64, preadv);
ALIAS(pwritev64, pwritev);

/* glibc's _IO_ERR_SEEN: what ferror looks at */
static void mark(FILE *stream) {
    stream->_flags |= 0x20;
    errno = error_number;
}

size_t fread(void *data, size_t size, size_t count, FILE *stream) {
    enum How found = fate_of("read", fileno(stream));
    if (found == NOTHING || found == SHORT) return NEXT(fread)(data, size, count, stream);
    return mark(stream), 0;
}
size_t fwrite(const void *data, size_t size, size_t count, FILE *stream) {
    enum How found = stream == stdout || stream == stderr ? NOTHING : fate_of("write", fileno(stream));
    if (found == NOTHING || found == SHORT) return NEXT(fwrite)(data, size, count, stream);
    if (found == TORN) NEXT(fwrite)(data, size, half(count), stream);
    return mark(stream), 0;
}
int fflush(FILE *stream) {
    enum How found = stream ? fate_of("write", fileno(stream)) : NOTHING;
    int done = found == FAIL ? 0 : NEXT(fflush)(stream);
    return found == FAIL || found == TORN ? (mark(stream), EOF) : done;
}
int fclose(FILE *stream) {
    enum How found = fate_of("close", fileno(stream));
    int done = NEXT(fclose)(stream);
    return found == NOTHING ? done : (failed(), EOF);
}

ssize_t sendfile(int out, int in, off_t *place, size_t count) {
    enum How found = fate_of("write", out);
    if (found == FAIL || found == LOSE) return failed();
    ssize_t done = syscall(SYS_sendfile, out, in, place, found == NOTHING ? count : half(count));
    return found == TORN ? failed() : done;
}
ALIAS(sendfile64, sendfile);
ssize_t copy_file_range(int in, off_t *from, int out, off_t *to, size_t count, unsigned flags) {
    enum How found = fate_of("write", out);
    if (found == FAIL || found == LOSE) return failed();
    ssize_t done = syscall(SYS_copy_file_range, in, from, out, to, found == NOTHING ? count : half(count), flags);
    return found == TORN ? failed() : done;
}

/* sync, truncate, close, map */

static int sync_by(long number, int file) {
    enum How found = fate_of("sync", file);
    if (found == LOSE) lose(file);
    if (found != NOTHING) return failed();
    int done = (int)syscall(number, file);
    if (armed && done == 0) synced(file);
    return done;
}
int fsync(int file) { return sync_by(SYS_fsync, file); }
int fdatasync(int file) { return sync_by(SYS_fdatasync, file); }
int syncfs(int file) { return sync_by(SYS_syncfs, file); }
int sync_file_range(int file, off_t place, off_t count, unsigned flags) {
    if (fate_of("sync", file) != NOTHING) return failed();
    return (int)syscall(SYS_sync_file_range, file, place, count, flags);
}

int ftruncate(int file, off_t size) {
    return fate_of("truncate", file) == NOTHING ? (int)syscall(SYS_ftruncate, file, size) : failed();
}
int truncate(const char *path, off_t size) {
    return fate_at("truncate", AT_FDCWD, path) == NOTHING ? (int)syscall(SYS_truncate, path, size) : failed();
}
int fallocate(int file, int mode, off_t place, off_t count) {
    return fate_of("truncate", file) == NOTHING ? (int)syscall(SYS_fallocate, file, mode, place, count) : failed();
}
int posix_fallocate(int file, off_t place, off_t count) {
    if (fate_of("truncate", file) != NOTHING) return error_number;
    return NEXT(posix_fallocate)(file, place, count);
}
ALIAS(ftruncate64, ftruncate);
ALIAS(truncate64, truncate);
ALIAS(fallocate64, fallocate);
ALIAS(posix_fallocate64, posix_fallocate);

int close(int file) {
    enum How found = fate_of("close", file);
    int done = (int)syscall(SYS_close, file);
    return found == NOTHING ? done : failed();
}

void *mmap(void *at, size_t length, int protection, int flags, int file, off_t place) {
    if (file >= 0 && fate_of("map", file) != NOTHING) return failed(), MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, length, protection, flags, file, place);
}
ALIAS(mmap64, mmap);

/* names */

static int rename_at(int from, const char *old, int to, const char *new, unsigned flags) {
    if (fate_at("rename", to, new) != NOTHING) return failed();
    return (int)syscall(SYS_renameat2, from, old, to, new, flags);
}
int rename(const char *old, const char *new) { return rename_at(AT_FDCWD, old, AT_FDCWD, new, 0); }
int renameat(int from, const char *old, int to, const char *new) { return rename_at(from, old, to, new, 0); }
int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    return rename_at(from, old, to, new, flags);
}

int unlinkat(int folder, const char *path, int flags) {
    const char *kind = flags & AT_REMOVEDIR ? "rmdir" : "unlink";
    return fate_at(kind, folder, path) == NOTHING ? (int)syscall(SYS_unlinkat, folder, path, flags) : failed();
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) {
    int done = unlinkat(AT_FDCWD, path, 0);
    return done < 0 && errno == EISDIR ? unlinkat(AT_FDCWD, path, AT_REMOVEDIR) : done;
}

int mkdirat(int folder, const char *path, mode_t mode) {
    return fate_at("mkdir", folder, path) == NOTHING ? (int)syscall(SYS_mkdirat, folder, path, mode) : failed();
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int linkat(int from, const char *old, int to, const char *new, int flags) {
    return fate_at("link", to, new) == NOTHING ? (int)syscall(SYS_linkat, from, old, to, new, flags) : failed();
}
int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }
int symlinkat(const char *text, int folder, const char *path) {
    return fate_at("link", folder, path) == NOTHING ? (int)syscall(SYS_symlinkat, text, folder, path) : failed();
}
int symlink(const char *text, const char *path) { return symlinkat(text, AT_FDCWD, path); }

/* stat: twice each, for the structures have two names; __xstat is how programs for older versions of glibc call it */

/* Without a path it is about the descriptor. Rust calls statx with NULL to see whether there is one, and the compiler
 * may take it from the headers that nobody does so. */
static __attribute__((noipa)) enum How fate_of_either(int folder, const char *path) {
    return path && path[0] ? fate_at("stat", folder, path) : fate_of("stat", folder);
}

#define STAT(suffix) \
    int stat##suffix(const char *path, struct stat##suffix *about) { \
        return fate_at("stat", AT_FDCWD, path) == NOTHING ? NEXT(stat##suffix)(path, about) : failed(); \
    } \
    int lstat##suffix(const char *path, struct stat##suffix *about) { \
        return fate_at("stat", AT_FDCWD, path) == NOTHING ? NEXT(lstat##suffix)(path, about) : failed(); \
    } \
    int fstat##suffix(int file, struct stat##suffix *about) { \
        return fate_of("stat", file) == NOTHING ? NEXT(fstat##suffix)(file, about) : failed(); \
    } \
    int fstatat##suffix(int folder, const char *path, struct stat##suffix *about, int flags) { \
        enum How found = fate_of_either(folder, path); \
        return found == NOTHING ? NEXT(fstatat##suffix)(folder, path, about, flags) : failed(); \
    } \
    int __xstat##suffix(int version, const char *path, struct stat##suffix *about) { \
        (void)version; \
        return stat##suffix(path, about); \
    } \
    int __lxstat##suffix(int version, const char *path, struct stat##suffix *about) { \
        (void)version; \
        return lstat##suffix(path, about); \
    } \
    int __fxstat##suffix(int version, int file, struct stat##suffix *about) { \
        (void)version; \
        return fstat##suffix(file, about); \
    }

STAT()
STAT(64)

int statx(int folder, const char *path, int flags, unsigned mask, struct statx *about) {
    enum How found = fate_of_either(folder, path);
    return found == NOTHING ? (int)syscall(SYS_statx, folder, path, flags, mask, about) : failed();
}
int faccessat(int folder, const char *path, int mode, int flags) {
    return fate_at("stat", folder, path) == NOTHING ? NEXT(faccessat)(folder, path, mode, flags) : failed();
}
int access(const char *path, int mode) { return faccessat(AT_FDCWD, path, mode, 0); }
