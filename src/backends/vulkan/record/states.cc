#include "backends/vulkan/record/states.h"

#include <cstring>

namespace smelt::vulkan {

Result<Binding> StateStore::place(int index, size_t bytes) {
  Entry& e = entries_[index];
  if (!e.buffer) {
    SMELT_ASSIGN(e.buffer, Buffer::make(device_, bytes, Buffer::Use::kDevice));
    e.bytes = bytes;
  }
  if (e.bytes != bytes) return Internal("a variable of another size than before");
  return e.buffer->slice(0, bytes);
}

Status StateStore::stage(Entry& e, char* host, bool up) {
  ++copies_;
  if (char* mapped = e.buffer->mapped()) {
    std::memcpy(up ? mapped : host, up ? host : mapped, e.bytes);
    return Ok();
  }
  SMELT_ASSIGN(auto staging, Buffer::make(device_, e.bytes, Buffer::Use::kStaging));
  const Binding there = e.buffer->slice(0, e.bytes), here = staging->slice(0, e.bytes);
  Recorder r(device_);
  if (up) std::memcpy(staging->mapped(), host, e.bytes);
  r.copy(up ? here : there, up ? there : here);
  SMELT_TRY(r.end());
  SMELT_TRY(r.run());
  if (!up) std::memcpy(host, staging->mapped(), e.bytes);
  return Ok();
}

Status StateStore::to_device(int index, const Tensor& host) {
  const auto at = entries_.find(index);
  if (at == entries_.end() || at->second.device) return Ok();
  if (host.bytes() != at->second.bytes) return InvalidInput("a variable changed its shape");
  SMELT_TRY(stage(at->second, const_cast<char*>(static_cast<const char*>(host.raw())), true));
  at->second.device = true;
  return Ok();
}

Status StateStore::to_host(int index, Tensor& host) {
  const auto at = entries_.find(index);
  if (at == entries_.end() || at->second.host) return Ok();
  if (host.bytes() != at->second.bytes) return Internal("a variable changed its shape");
  SMELT_TRY(stage(at->second, static_cast<char*>(host.raw()), false));
  at->second.host = true;
  return Ok();
}

void StateStore::written_on_device(int index) {
  Entry& e = entries_.find(index)->second;
  e.device = true;
  e.host = false;
}

void StateStore::written_on_host(int index) {
  const auto at = entries_.find(index);
  if (at == entries_.end()) return;
  at->second.device = false;
  at->second.host = true;
}

void StateStore::all_written_on_host() {
  for (auto& [index, e] : entries_) {
    e.device = false;
    e.host = true;
  }
}

size_t StateStore::bytes() const {
  size_t n = 0;
  for (const auto& [index, e] : entries_) n += e.buffer ? e.buffer->bytes() : 0;
  return n;
}

}  // namespace smelt::vulkan
