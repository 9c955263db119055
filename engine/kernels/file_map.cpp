#include "file_map.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <system_error>

namespace bankml {

// What the signal handler needs to know of a map. It runs in whichever thread touched the page, so everything is atomic
// and nothing is ever freed. `begin` is written last and cleared first: a range with a `begin` is whole.
struct WatchedRange {
    std::atomic<bool> taken{false};
    std::atomic<uintptr_t> begin{0};
    std::atomic<uintptr_t> end{0};
    std::atomic<bool> lost{false};
};

namespace {

constexpr size_t kRanges = 1024;
WatchedRange ranges[kRanges];
struct sigaction previous;
uintptr_t page_size;

// Puts zeros where a page is lost, and with it everything behind: where a file was cut nothing behind is left either,
// and one map a fault could run into the system's bound on the maps of a process.
bool fill(WatchedRange & range, uintptr_t address) {
    range.lost.store(true);
    const uintptr_t page = address & ~(page_size - 1);
    void * const filled = mmap(reinterpret_cast<void *>(page), range.end.load() - page, PROT_READ,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    return filled != MAP_FAILED;
}

void on_bus_error(int number, siginfo_t * info, void * context) {
    const int error = errno;
    const uintptr_t address = reinterpret_cast<uintptr_t>(info->si_addr);
    if (info->si_code > 0) {  // a fault, not a signal that somebody sent
        for (WatchedRange & range : ranges) {
            const uintptr_t begin = range.begin.load();
            if (begin != 0 && begin <= address && address < range.end.load() && fill(range, address)) {
                errno = error;
                return;
            }
        }
    }
    if ((previous.sa_flags & SA_SIGINFO) != 0) {
        previous.sa_sigaction(number, info, context);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(number);
    } else {
        // Back to the default: the instruction faults again and ends the process; a signal that was sent is sent again.
        signal(number, SIG_DFL);
        if (info->si_code <= 0) raise(number);
    }
    errno = error;
}

void watch_bus_errors() {
    static std::once_flag once;
    std::call_once(once, [] {
        page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
        struct sigaction action = {};
        action.sa_sigaction = on_bus_error;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        sigaction(SIGBUS, &action, &previous);
    });
}

WatchedRange * watch(const uint8_t * data, size_t bytes) {
    watch_bus_errors();
    for (WatchedRange & range : ranges) {
        if (range.taken.exchange(true)) continue;
        range.lost.store(false);
        range.end.store(reinterpret_cast<uintptr_t>(data) + bytes);
        range.begin.store(reinterpret_cast<uintptr_t>(data));
        return &range;
    }
    return nullptr;
}

}  // namespace

FileMap::FileMap(int descriptor) {
    if (fstat(descriptor, &stat_) != 0) throw std::system_error(errno, std::generic_category());
    if (stat_.st_size == 0) throw std::system_error(EINVAL, std::generic_category());
    descriptor_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
    if (descriptor_ < 0) throw std::system_error(errno, std::generic_category());
    void * const map = mmap(nullptr, size(), PROT_READ, MAP_SHARED, descriptor_, 0);
    if (map != MAP_FAILED) {
        data_ = static_cast<const uint8_t *>(map);
        range_ = watch(data_, size());
        if (range_ != nullptr) return;
        munmap(map, size());
        errno = EMFILE;
    }
    const int error = errno;
    close(descriptor_);
    throw std::system_error(error, std::generic_category());
}

FileMap::~FileMap() {
    range_->begin.store(0);
    munmap(const_cast<uint8_t *>(data_), size());
    range_->taken.store(false);
    close(descriptor_);
}

bool FileMap::intact() const {
    struct stat now;
    return !range_->lost.load() && fstat(descriptor_, &now) == 0 && now.st_size == stat_.st_size &&
           now.st_mtim.tv_sec == stat_.st_mtim.tv_sec && now.st_mtim.tv_nsec == stat_.st_mtim.tv_nsec;
}

void FileMap::release() const {
    if (!range_->lost.load()) madvise(const_cast<uint8_t *>(data_), size(), MADV_DONTNEED);
}

}  // namespace bankml
