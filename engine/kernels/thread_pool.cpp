#include "thread_pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bankml {
namespace {

// A job's barriers are microseconds apart; a core that waits longer than this is better given away.
constexpr int kSpinsBeforeYield = 1000;
// Between two tokens lies the sampler and a hop through Python: about a hundred microseconds.
constexpr int kSpinsBeforeSleep = 4000;

inline void relax() {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

template <class Done>
void spin(Done done) {
    for (int i = 0; !done(); ++i) {
        if (i < kSpinsBeforeYield) {
            relax();
        } else {
            std::this_thread::yield();
        }
    }
}

}  // namespace

ThreadPool::ThreadPool(int n_threads) : n_threads_(n_threads) {
    try {
        for (int i = 1; i < n_threads_; ++i) threads_.emplace_back([this, i] { work(i); });
    } catch (...) {  // the system starts no more of them
        stop();
        throw;
    }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
    stopping_.store(true);
    generation_.fetch_add(1);
    generation_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run(const std::function<void(int)>& job) {
    job_ = &job;
    running_.store(static_cast<uint32_t>(n_threads_ - 1), std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    job(0);
    spin([this] { return running_.load(std::memory_order_acquire) == 0; });
}

void ThreadPool::barrier() {
    const uint32_t phase = phase_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == n_threads_ - 1) {
        arrived_.store(0, std::memory_order_relaxed);
        phase_.fetch_add(1, std::memory_order_release);
        return;
    }
    spin([this, phase] { return phase_.load(std::memory_order_acquire) != phase; });
}

void ThreadPool::work(int thread) {
    uint32_t seen = 0;
    for (;;) {
        for (int i = 0; i < kSpinsBeforeSleep && generation_.load(std::memory_order_relaxed) == seen; ++i) relax();
        generation_.wait(seen, std::memory_order_acquire);
        ++seen;
        if (stopping_.load()) return;
        (*job_)(thread);
        running_.fetch_sub(1, std::memory_order_release);
    }
}

}  // namespace bankml
