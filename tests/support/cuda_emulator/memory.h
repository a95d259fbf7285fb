// Device memory of the emulator: a region of address space of its own.
//
// - Allocations end at a page that is never accessible and addresses are never used twice, so an
//   access past the end or after the release faults; the bytes between the end and the page are
//   watched as well.
// - Fresh memory is NaN.
// - While host code runs the whole region is inaccessible: a device pointer used on the host
//   faults. It is opened while the emulated device works (DeviceAccess).
// Faults are turned into messages: inside a kernel the launch fails, on the host the process ends
// with a sentence on standard error (or expect_host_fault returns it).
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace emulator {

void* device_allocate(size_t bytes);          // null: out of memory
bool device_release(void* pointer);           // false: no such allocation
bool is_device_pointer(const void* pointer);  // inside a live allocation, or one past its end
bool in_device_region(const void* pointer);
std::string describe_address(const void* pointer);

size_t device_memory_used();
size_t device_memory_limit();
void set_device_memory_limit(size_t bytes);

// Empty, or what was written past the end of an allocation.
std::string check_allocation_ends();

class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

// Runs `body`, which is expected to touch device memory from the host; returns the message, or
// an empty text when nothing happened. `body` must not own memory.
std::string expect_host_fault(const std::function<void()>& body);

// Sentence for a word of a kernel argument that looks like a host address; empty when it does not.
bool looks_like_host_pointer(const void* value);

}  // namespace emulator
