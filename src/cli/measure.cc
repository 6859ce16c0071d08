#include "cli/measure.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <latch>
#include <limits>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/guard.h"
#include "cli/output.h"

namespace smelt::cli {
namespace {

constexpr size_t kTracedRuns = 10;

volatile std::sig_atomic_t interrupted = 0;

/// While it lives, the first Ctrl-C ends the measurement after the current run; the second ends the process.
class InterruptGuard {
 public:
  InterruptGuard() {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    sigaction(SIGINT, &action, &before_);
  }
  ~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction before_ {};
};

/// What one session measured.
struct Stream {
  std::vector<double> samples_ms;
  std::vector<ProfiledRun> traced;
  double begin_ms = 0, end_ms = 0;
  Status status;
};

Status warm_up(Session& session, const std::vector<Datum>& inputs, const MeasureOptions& o) {
  for (int i = 1; i < o.warmup && interrupted == 0; ++i) SMELT_TRY(session.run_in_place(inputs));
  session.reset_profile();
  return Ok();
}

Status measure_stream(Session& session, const std::vector<Datum>& inputs, const MeasureOptions& o, bool trace,
                      Progress* progress, Stream& s) {
  const size_t runs = o.seconds > 0 ? std::numeric_limits<size_t>::max() : static_cast<size_t>(o.runs);
  std::vector<ProfileEntry> before;
  s.begin_ms = now_ms();
  while (interrupted == 0 && s.samples_ms.size() < runs &&
         (o.seconds <= 0 || s.samples_ms.empty() || now_ms() - s.begin_ms < o.seconds * 1e3)) {
    const double start = now_ms();
    SMELT_TRY(session.run_in_place(inputs));
    const double wall = now_ms() - start;
    s.samples_ms.push_back(wall);
    if (trace && s.traced.size() < kTracedRuns) {
      auto total = session.profile();
      s.traced.push_back({start - s.begin_ms, wall, profile_since(before, total)});
      before = std::move(total);
    }
    if (progress && o.seconds <= 0) progress->step(s.samples_ms.size(), runs);
  }
  s.end_ms = now_ms();
  return Ok();
}

}  // namespace

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Status measure(std::vector<Session>& streams, const std::vector<Datum>& inputs, const MeasureOptions& o,
               Measurement& m) {
  const InterruptGuard guard;
  std::vector<Stream> measured(streams.size());
  for (Session& session : streams) SMELT_TRY(warm_up(session, inputs, o));
  {
    Progress progress("bench");
    std::latch begin(static_cast<std::ptrdiff_t>(streams.size()));
    const auto run = [&](size_t i) {
      begin.arrive_and_wait();
      measured[i].status = guarded([&] {
        return measure_stream(streams[i], inputs, o, o.trace && i == 0, i == 0 ? &progress : nullptr, measured[i]);
      });
    };
    std::vector<std::jthread> threads;
    for (size_t i = 1; i < streams.size(); ++i) threads.emplace_back(run, i);
    run(0);
  }
  double begin = measured[0].begin_ms, end = measured[0].end_ms;
  for (size_t i = 0; i < streams.size(); ++i) {
    SMELT_TRY(measured[i].status);
    begin = std::min(begin, measured[i].begin_ms);
    end = std::max(end, measured[i].end_ms);
    m.samples_ms.insert(m.samples_ms.end(), measured[i].samples_ms.begin(), measured[i].samples_ms.end());
    add_profile(m.profile, streams[i].profile());
  }
  m.streams = streams.size();
  m.wall_ms = end - begin;
  m.traced = std::move(measured[0].traced);
  m.interrupted = interrupted != 0;
  if (m.samples_ms.empty()) return Error(ErrorCode::kCancelled, "interrupted before the first measured run");
  return Ok();
}

namespace {

/// The processors of a list; nullopt: it is none.
std::optional<cpu_set_t> cpu_set(const std::string& list) {
  cpu_set_t out;
  CPU_ZERO(&out);
  const char *at = list.data(), *const end = at + list.size();
  const auto number = [&](unsigned& n) {
    const auto r = std::from_chars(at, end, n);
    at = r.ptr;
    return r.ec == std::errc() && n < CPU_SETSIZE;
  };
  while (true) {
    unsigned first = 0, last = 0;
    if (!number(first)) return std::nullopt;
    last = first;
    if (at != end && *at == '-' && (++at, !number(last) || last < first)) return std::nullopt;
    for (unsigned n = first; n <= last; ++n) CPU_SET(n, &out);
    if (at == end) return out;
    if (*at++ != ',') return std::nullopt;
  }
}

}  // namespace

bool is_cpu_list(const std::string& text) { return cpu_set(text).has_value(); }

Status restrict_to_cpus(const std::string& list) {
  const auto wanted = cpu_set(list);
  if (!wanted) return InvalidInput("'", list, "' is no list of processors, as 0-3,6");
  cpu_set_t there;
  if (sched_getaffinity(0, sizeof there, &there) == 0)
    for (unsigned n = 0; n < CPU_SETSIZE; ++n)
      if (CPU_ISSET(n, &*wanted) && !CPU_ISSET(n, &there))
        return InvalidInput("processor ", n, " of --cpus ", list, " is not there for this process");
  if (sched_setaffinity(0, sizeof *wanted, &*wanted) != 0)
    return Error(ErrorCode::kDevice, Cat("--cpus ", list, ": ", std::strerror(errno)));
  return Ok();
}

}  // namespace smelt::cli
