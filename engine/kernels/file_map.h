// A file mapped read-only, and whether it is still what was mapped.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>

namespace bankml {

struct WatchedRange;

// The map of a whole file. Reading a page that the file has lost meanwhile (it was cut, or its disk fails) raises SIGBUS,
// which would end the process. Here it reads as zeros instead, and `intact` is false from then on: whoever computed with
// the map asks afterwards, and throws the result away. A SIGBUS anywhere else does what it did before.
class FileMap {
  public:
    // Maps the file behind a descriptor, which stays the caller's. Throws std::system_error.
    explicit FileMap(int descriptor);
    ~FileMap();
    FileMap(const FileMap &) = delete;
    FileMap & operator=(const FileMap &) = delete;

    const uint8_t * data() const { return data_; }
    size_t size() const { return static_cast<size_t>(stat_.st_size); }

    // Whether every byte read so far was the file's, and the file has the size and time of change that it had when it
    // was mapped. A file that another one replaced under its name is intact: the map keeps it alive.
    bool intact() const;

    // Gives the pages back to the system; they are read from the file again when they are used again.
    void release() const;

  private:
    int descriptor_ = -1;
    struct stat stat_ = {};
    const uint8_t * data_ = nullptr;
    WatchedRange * range_ = nullptr;
};

}  // namespace bankml
