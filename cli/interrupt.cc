#include "cli/interrupt.h"

#include <atomic>
#include <csignal>

namespace plumbline::cli {
namespace {

// A handler has no other way to be heard.
std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void on_interrupt(int number) {
  stop_requested = true;
  std::signal(number, SIG_DFL);
}

}  // namespace

Interrupt::Interrupt() {
  stop_requested = false;
  std::signal(SIGINT, on_interrupt);
}

Interrupt::~Interrupt() { std::signal(SIGINT, SIG_DFL); }

bool Interrupt::requested() const { return stop_requested; }

}  // namespace plumbline::cli
