#include "real/bootstrap/detail/job_token.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "real/bootstrap/detail/handshake.h"
#include "real/bootstrap/detail/socket.h"

namespace plumbline::real {
namespace {

namespace fs = std::filesystem;

// A random identifier (a UUID has 36 characters) is longer, a number or a name that somebody chose is shorter.
constexpr std::size_t shortest_token = 16;

tl::unexpected<model::Error> unusable(const fs::path& path, std::string message, const std::string& remedy = "") {
  const char* otherwise = "set PLUMBLINE_JOB_TOKEN to the same secret on all ranks";
  return model::wrong_input_at(path.string(), 0, "", std::move(message),
                               remedy.empty() ? otherwise : fmt::format("{}, or {}", remedy, otherwise));
}

// Returns the file's content; nothing where there is none.
model::Result<std::optional<std::string>> read_token_file(const fs::path& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.number() < 0 && errno == ENOENT) return std::nullopt;
  if (file.number() < 0) return unusable(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  struct stat status {};
  ::fstat(file.number(), &status);
  if (!S_ISREG(status.st_mode)) return unusable(path, "is no file", "remove it");
  constexpr mode_t of_others = S_IRWXG | S_IRWXO;
  if (status.st_uid != ::geteuid()) return unusable(path, "is of another user");
  if ((status.st_mode & of_others) != 0) return unusable(path, "can be read by others", "remove it");
  std::array<char, 4096> text{};
  const ssize_t bytes = ::read(file.number(), text.data(), text.size());
  if (bytes < static_cast<ssize_t>(shortest_token)) return unusable(path, "holds no token", "remove it");
  return std::string(text.data(), static_cast<std::size_t>(bytes));
}

// Writes a new token under a name of this process and links it to its own, unless another process was first.
model::Result<void> create_token_file(const fs::path& path) {
  std::error_code failed;
  fs::create_directories(path.parent_path(), failed);
  std::string own = path.string() + ".XXXXXX";
  const File file(::mkostemp(own.data(), O_CLOEXEC));  // only this user can read it
  if (file.number() < 0) return unusable(path, fmt::format("cannot be created: {}", std::strerror(errno)));
  std::string token;
  for (const std::uint8_t byte : draw_nonce()) token += fmt::format("{:02x}", byte);
  token += '\n';
  const bool written = ::write(file.number(), token.data(), token.size()) == static_cast<ssize_t>(token.size()) &&
                       ::fsync(file.number()) == 0;
  const bool linked = written && (::link(own.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const int reason = errno;
  ::unlink(own.c_str());
  if (!linked) return unusable(path, fmt::format("cannot be created: {}", std::strerror(reason)));
  return {};
}

model::Result<fs::path> token_file(const Environment& environment) {
  if (const auto state = environment("XDG_STATE_HOME"); state && state->starts_with('/'))
    return fs::path(*state) / "plumbline/job-token";
  if (const auto home = environment("HOME"); home && home->starts_with('/'))
    return fs::path(*home) / ".local/state/plumbline/job-token";
  return model::wrong_input("HOME", "is no folder, where the token of jobs would lie",
                            "set PLUMBLINE_JOB_TOKEN to the same secret on all ranks");
}

}  // namespace

model::Result<std::string> read_job_token(Machines machines, const Environment& environment) {
  if (auto token = environment("PLUMBLINE_JOB_TOKEN")) {
    if (token->size() >= shortest_token) return *token;
    return model::wrong_input("PLUMBLINE_JOB_TOKEN", fmt::format("{} characters can be guessed", token->size()),
                              fmt::format("at least {}: openssl rand -hex 16", shortest_token));
  }
  const auto run = environment("TORCHELASTIC_RUN_ID");
  if (machines == Machines::several && run && run->size() >= shortest_token) return *run;
  TRY(prepare_proofs());
  const fs::path path = TRY(token_file(environment));
  auto token = TRY(read_token_file(path));
  if (token) return *token;
  TRY(create_token_file(path));
  token = TRY(read_token_file(path));
  if (!token) return unusable(path, "was removed while it was read");
  return *token;
}

}  // namespace plumbline::real
