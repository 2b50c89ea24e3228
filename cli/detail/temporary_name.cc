#include "cli/detail/temporary_name.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <string>
#include <system_error>

namespace plumbline::cli {
namespace {

// A global, because a signal handler has no argument for its state.
std::atomic<const char*> living = nullptr;
static_assert(std::atomic<const char*>::is_always_lock_free);

// Returns 16 digits that no other process draws: numbers of processes repeat between machines and containers.
std::string random_digits() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}", source(), source());
}

}  // namespace

TemporaryName::TemporaryName(const std::filesystem::path& target)
    : path_(fmt::format("{}.tmp-{}", target.string(), random_digits())) {
  living = path_.c_str();
}

TemporaryName::~TemporaryName() {
  living = nullptr;
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

void remove_temporary() {
  if (const char* path = living) ::unlink(path);
}

}  // namespace plumbline::cli
