#include "real/host/clock.h"

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <string>

namespace plumbline::real::host {
namespace {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  constexpr double nanosecond = 1e-9;
  return static_cast<double>(time.tv_sec) + nanosecond * static_cast<double>(time.tv_nsec);
}

}  // namespace

std::string_view to_string(ClockKind kind) {
  switch (kind) {
    case ClockKind::wall:
      return "wall";
    case ClockKind::cpu:
      return "cpu";
    case ClockKind::profile:
      return "profile";
    case ClockKind::simulated:
      return "simulated";
  }
  return "";
}

model::Result<ClockKind> parse_clock(std::string_view word, std::span<const ClockKind> known) {
  std::string words;
  for (const ClockKind kind : known) {
    if (word == to_string(kind)) return kind;
    words += fmt::format("{}{}", words.empty() ? "known: " : ", ", to_string(kind));
  }
  return tl::unexpected(
      model::Error{model::ErrorKind::input, fmt::format("unknown clock '{}'", word), "", 0, "--clock", words});
}

double StreamClock::now() {
  switch (kind_) {
    case ClockKind::wall:
      return wall_seconds();
    case ClockKind::cpu:
      return base_ + thread_seconds() - mark_;
    case ClockKind::profile:
      return base_;
    case ClockKind::simulated:
      return simulated_.now();
  }
  return 0;
}

void StreamClock::advance_to(double time) {
  const bool is_virtual = kind_ == ClockKind::cpu || kind_ == ClockKind::profile;
  if (!is_virtual || time <= now()) return;
  base_ = time;
  mark_ = thread_seconds();
}

void StreamClock::spend(double seconds) {
  if (kind_ == ClockKind::profile) base_ += seconds;
  if (kind_ == ClockKind::simulated) simulated_.compute(seconds);
}

void StreamClock::enter_thread() {
  if (kind_ == ClockKind::cpu) mark_ = thread_seconds();
}

}  // namespace plumbline::real::host
