/* SPDX-License-Identifier: MIT */
/** @file acre.hpp
 *  @brief C++: owners of devices, streams, caches and pools, and a std::pmr resource.
 *
 * Header only, C++17. Every failure is an acre::error with the library's own sentence, and a
 * std::runtime_error; a request that cannot be served is an acre::out_of_memory, which is a
 * std::bad_alloc instead. Owners are moved, never copied, and end what they own.
 *
 *     acre::device device(ACRE_DEVICE_PRIVATE);
 *     acre::cache cache(device);
 *     acre::stream stream(device);
 *     acre::block block = cache.alloc(1 << 20, stream);
 *
 *     acre::device host(ACRE_DEVICE_CPU);
 *     acre::cache memory(host);
 *     acre::memory_resource resource(memory);
 *     std::pmr::vector<float> values(1000, &resource);
 *
 * What is made from an object must end before it: blocks before their cache, caches and streams
 * before the program ends. Threads: as the C calls beneath.
 */
#ifndef ACRE_ACRE_HPP
#define ACRE_ACRE_HPP

#include <acre/acre.h>

#include <cstddef>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace acre {

/** A call of the library that failed. What is thrown is a failure or an out_of_memory: each of
 *  them has one std::exception, so that handlers of either kind see it. */
class error {
  public:
    /** Takes the status and the sentence of the last failure on this thread. */
    explicit error(acre_status status) : text_(acre_last_error()), status_(status) {}
    /** A copy, which cannot fail. */
    error(const error &) = default;
    /** Takes the status and the sentence of another. */
    error &operator=(const error &) = default;
    virtual ~error() = default;
    /** The sentence. */
    virtual const char *what() const noexcept { return text_.what(); }
    /** What went wrong, as a number. */
    acre_status status() const noexcept { return status_; }

  private:
    std::runtime_error text_; /* copying it cannot fail */
    acre_status status_;
};

/** A call that failed for another reason than memory. */
class failure : public error, public std::runtime_error {
  public:
    /** Takes the status and the sentence of the last failure on this thread. */
    explicit failure(acre_status status) : error(status), std::runtime_error(error::what()) {}
    /** The sentence. */
    const char *what() const noexcept override { return error::what(); }
};

/** Memory that could not be had. */
class out_of_memory : public error, public std::bad_alloc {
  public:
    using error::error;
    /** The sentence. */
    const char *what() const noexcept override { return error::what(); }
};

/** Throws unless a status is ACRE_OK. */
inline void check(acre_status status)
{
    if (status == ACRE_OK)
        return;
    if (status == ACRE_ERR_DEVICE_MEMORY || status == ACRE_ERR_HOST_MEMORY ||
        status == ACRE_ERR_REJECTED || status == ACRE_ERR_LIMIT)
        throw out_of_memory(status);
    throw failure(status);
}

/** A device. It belongs to the library: copies are the same device. */
class device {
  public:
    /** Device number @p index of a type; -1: the current one. */
    explicit device(acre_device_type type, int index = -1)
    {
        check(acre_device_get(type, index, &handle_));
    }
    /** A device that C code found. */
    explicit device(acre_device *handle) noexcept : handle_(handle) {}

    /** The device for C calls. */
    acre_device *get() const noexcept { return handle_; }
    /** Waits for all its streams. */
    void synchronize() const { check(acre_device_synchronize(handle_)); }

  private:
    acre_device *handle_ = nullptr;
};

/** A stream that ends with its owner. */
class stream {
  public:
    /** Makes a stream of a device; a lower number is a higher priority. */
    explicit stream(const device &on, int priority = 0) : device_(on.get())
    {
        check(acre_stream_native_create(device_, 0, priority, &handle_));
    }
    /** Takes the stream of another owner. */
    stream(stream &&other) noexcept
        : device_(other.device_), handle_(std::exchange(other.handle_, nullptr))
    {
    }
    /** Exchanges streams with another owner. */
    stream &operator=(stream &&other) noexcept
    {
        std::swap(device_, other.device_);
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~stream()
    {
        if (handle_)
            acre_stream_native_destroy(device_, handle_);
    }

    /** The native stream. */
    void *get() const noexcept { return handle_; }
    /** Waits until all that was queued is done. */
    void synchronize() const { check(acre_stream_native_synchronize(device_, handle_)); }

  private:
    acre_device *device_;
    void *handle_ = nullptr;
};

class cache;

/** Memory of a cache, freed with its owner. */
class block {
  public:
    block() noexcept = default;
    /** Takes the memory of another owner. */
    block(block &&other) noexcept
        : cache_(other.cache_), data_(std::exchange(other.data_, nullptr)),
          bytes_(std::exchange(other.bytes_, 0))
    {
    }
    /** Exchanges memory with another owner. */
    block &operator=(block &&other) noexcept
    {
        std::swap(cache_, other.cache_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~block() { reset(); }

    /** Where it is. */
    void *data() const noexcept { return data_; }
    /** As requested. */
    std::size_t size() const noexcept { return bytes_; }
    /** Whether it owns memory. */
    explicit operator bool() const noexcept { return data_ != nullptr; }
    /** Frees it. */
    void reset() noexcept
    {
        if (data_)
            acre_cache_free(cache_, data_);
        data_ = nullptr;
        bytes_ = 0;
    }
    /** Gives the pointer away: acre_cache_free() is the caller's then. */
    void *release() noexcept
    {
        bytes_ = 0;
        return std::exchange(data_, nullptr);
    }
    /** Says that a stream uses it too: its free waits for that stream. */
    void used_on(const stream &other) const
    {
        check(acre_cache_record_stream(cache_, data_, other.get()));
    }

  private:
    friend class cache;
    block(acre_cache *from, void *data, std::size_t bytes) noexcept
        : cache_(from), data_(data), bytes_(bytes)
    {
    }
    acre_cache *cache_ = nullptr;
    void *data_ = nullptr;
    std::size_t bytes_ = 0;
};

/** The caching allocator of a device. */
class cache {
  public:
    /** @p conf is in PyTorch's grammar, such as "expandable_segments:True". */
    explicit cache(const device &on, acre_policy policy = ACRE_POLICY_DEFAULT,
                   const char *conf = nullptr)
    {
        acre_cache_config config = {};
        config.struct_size = sizeof config;
        config.policy = policy;
        config.conf = conf;
        check(acre_cache_create(on.get(), &config, &handle_));
    }
    /** Takes the cache of another owner. */
    cache(cache &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    /** Exchanges caches with another owner. */
    cache &operator=(cache &&other) noexcept
    {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~cache()
    {
        if (handle_)
            acre_cache_destroy(handle_);
    }

    /** The cache for C calls. */
    acre_cache *get() const noexcept { return handle_; }
    /** Allocates on the default stream. */
    block alloc(std::size_t bytes) const { return take(bytes, nullptr); }
    /** Allocates on a stream. */
    block alloc(std::size_t bytes, const stream &on) const { return take(bytes, on.get()); }
    /** Gives cached memory back to the device. */
    void empty() const { check(acre_cache_empty(handle_)); }
    /** Counts and peaks. */
    acre_cache_stats stats() const
    {
        acre_cache_stats found = {};
        found.struct_size = sizeof found;
        check(acre_cache_stats_get(handle_, &found));
        return found;
    }

  private:
    block take(std::size_t bytes, void *native) const
    {
        void *data = nullptr;
        check(acre_cache_alloc(handle_, bytes, native, &data));
        return block(handle_, data, bytes);
    }
    acre_cache *handle_ = nullptr;
};

/** A private pool of a cache, given up with its owner. */
class pool {
  public:
    /** Makes a private pool of a cache. */
    explicit pool(const cache &of) : cache_(of.get()), id_(acre_pool_id_next())
    {
        check(acre_pool_create(cache_, id_, nullptr));
        is_held_ = true;
    }
    /** Takes the pool of another owner. */
    pool(pool &&other) noexcept
        : cache_(other.cache_), id_(other.id_), is_held_(std::exchange(other.is_held_, false))
    {
    }
    pool &operator=(pool &&) = delete;
    ~pool()
    {
        if (is_held_)
            acre_pool_release(cache_, id_);
    }

    /** Its number. */
    acre_pool_id id() const noexcept { return id_; }

    /** While it lives, this thread allocates from the pool. */
    class scope {
      public:
        /** Begins to allocate from a pool. */
        explicit scope(const pool &of) : cache_(of.cache_), id_(of.id_)
        {
            check(acre_pool_begin(cache_, id_, nullptr));
        }
        scope(const scope &) = delete;
        scope &operator=(const scope &) = delete;
        ~scope() { acre_pool_end(cache_, id_); }

      private:
        acre_cache *cache_;
        acre_pool_id id_;
    };

  private:
    acre_cache *cache_;
    acre_pool_id id_;
    bool is_held_ = false;
};

/** A std::pmr resource over a cache. Containers touch the memory from the host, so the device
 *  must allow that: ACRE_DEVICE_CPU, or one with unified memory. Alignments up to 512 bytes are
 *  served; a larger one is std::bad_alloc. */
class memory_resource : public std::pmr::memory_resource {
  public:
    /** A resource that allocates from a cache, which must outlive it. */
    explicit memory_resource(const cache &of) noexcept : cache_(of.get()) {}

  private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override
    {
        void *data = nullptr;
        if (alignment > alignment_max)
            throw std::bad_alloc();
        check(acre_cache_alloc(cache_, bytes ? bytes : 1, nullptr, &data));
        return data;
    }
    void do_deallocate(void *data, std::size_t, std::size_t) override
    {
        acre_cache_free(cache_, data);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        auto *same = dynamic_cast<const memory_resource *>(&other);
        return same && same->cache_ == cache_;
    }
    static constexpr std::size_t alignment_max = 512;
    acre_cache *cache_;
};

} // namespace acre

#endif
