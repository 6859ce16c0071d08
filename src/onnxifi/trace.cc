#include "onnxifi/trace.h"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>

namespace smelt::onnxifi {
namespace {

onnxTraceEvent* make_event(const std::string& name, uint64_t start, uint64_t duration) {
  auto* e = new onnxTraceEvent{};
  std::strncpy(e->eventName, name.c_str(), sizeof e->eventName - 1);
  e->eventType = 'X';
  e->timestamp = start;
  e->tid = static_cast<uint32_t>(gettid());
  e->duration = duration;
  return e;
}

}  // namespace

uint64_t trace_clock() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
}

void fill_trace(onnxTraceEventList* list, uint64_t start, uint64_t end, const std::vector<ProfileEntry>& profile) {
  list->traceEvents = new onnxTraceEvent*[profile.size() + 1];
  list->traceEvents[0] = make_event("run", start, end - start);
  uint64_t at = start;
  for (size_t i = 0; i < profile.size(); ++i) {
    const ProfileEntry& p = profile[i];
    const auto duration = static_cast<uint64_t>(p.micros / static_cast<double>(p.calls ? p.calls : 1));
    list->traceEvents[i + 1] = make_event(p.node.empty() ? p.origin : p.node, at, duration);
    at += duration;
  }
  list->numEvents = profile.size() + 1;
}

void release_trace(onnxTraceEventList* list) {
  for (uint64_t i = 0; i < list->numEvents; ++i) delete list->traceEvents[i];
  delete[] list->traceEvents;
  list->traceEvents = nullptr;
  list->numEvents = 0;
}

}  // namespace smelt::onnxifi
