// Threads that meet at barriers inside one job, spin briefly between jobs, and sleep when there are none.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace bankml {

class ThreadPool {
  public:
    explicit ThreadPool(int n_threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int size() const { return n_threads_; }
    // Runs job(0) here and job(1..size-1) on the others; returns when all are done. One caller at a time.
    void run(const std::function<void(int)>& job);
    // Inside a job: waits until every thread of the pool is here.
    void barrier();

  private:
    void work(int thread);
    void stop();

    const int n_threads_;
    const std::function<void(int)>* job_ = nullptr;
    alignas(64) std::atomic<uint32_t> generation_{0};
    alignas(64) std::atomic<uint32_t> running_{0};
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<uint32_t> phase_{0};
    std::atomic<bool> stopping_{false};
    std::vector<std::thread> threads_;
};

}  // namespace bankml
