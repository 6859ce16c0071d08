#include "cli/trace_event.h"

#include <cmath>
#include <limits>
#include <utility>

namespace smelt::cli {

int64_t nanoseconds(double micros) { return std::llround(micros * 1e3); }

double event_micros(int64_t nanos) {
  double micros = static_cast<double>(nanos) / 1e3;
  if (static_cast<int64_t>(micros * 1e3) < nanos) micros = std::nextafter(micros, std::numeric_limits<double>::max());
  return micros;
}

Json slice_event(const std::string& name, int64_t begin, int64_t end, int process, int thread, Json arguments) {
  return {{"name", name},
          {"ph", "X"},
          {"pid", process},
          {"tid", thread},
          {"ts", event_micros(begin)},
          {"dur", event_micros(end - begin)},
          {"args", std::move(arguments)}};
}

}  // namespace smelt::cli
