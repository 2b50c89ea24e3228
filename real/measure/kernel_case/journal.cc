#include "real/measure/kernel_case/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

namespace plumbline::real {
namespace {

std::string identity(const std::string& line, const std::string& cache, const std::string& variant) {
  return line + "\n" + cache + "\n" + variant;
}

tl::unexpected<model::Error> wrong(const std::string& path, const std::string& message) {
  return tl::unexpected(model::Error{model::ErrorKind::input, message + std::strerror(errno), path});
}

std::string read_all(int file) {
  std::string text;
  char buffer[1 << 16];
  for (ssize_t got = 0; (got = read(file, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  return text;
}

}  // namespace

model::Result<std::unique_ptr<Journal>> Journal::open(const std::string& path, const std::string& device) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (file < 0) return wrong(path, "");
  std::unique_ptr<Journal> journal(new Journal(file, device));
  struct stat status {};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return journal;  // /dev/null or a pipe: nothing to resume
  if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return wrong(path, "another run measures into it: ");
  const std::string text = read_all(file);
  const std::size_t end = text.rfind('\n');
  const std::size_t whole = end == std::string::npos ? 0 : end + 1;
  if (whole != text.size() && ftruncate(file, static_cast<off_t>(whole)) != 0)
    return wrong(path, "the incomplete last line cannot be removed: ");
  std::istringstream lines(text.substr(0, whole));
  for (std::string line; std::getline(lines, line);) journal->remember(line);
  journal->found_ = journal->measured_.size();
  return journal;
}

Journal::~Journal() { close(file_); }

// Ignores lines that are not records of the device.
void Journal::remember(const std::string& line) {
  const auto record = nlohmann::json::parse(line, nullptr, false);
  if (!record.is_object()) return;
  const auto text = [&](const char* key) {
    const auto found = record.find(key);
    return found != record.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  if (text("device") != device_) return;
  const std::string kind = text("kind"), what = text("case");
  if (kind == "measurement") measured_.insert(identity(what, text("cache"), text("variant")));
  if (kind == "failure") failed_.insert(what);
}

bool Journal::has(const Subject& subject) const {
  return measured_.count(identity(subject.key, subject.cache, subject.variant)) != 0;
}

bool Journal::complete(const KernelCase& what) const {
  return std::ranges::all_of(subjects_of(what), [&](const Subject& subject) { return has(subject); });
}

bool Journal::failed(const KernelCase& what) const { return failed_.count(to_line(what)) != 0; }

bool Journal::append(const std::string& text) {
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t count = write(file_, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    written += static_cast<std::size_t>(count);
  }
  if (fdatasync(file_) != 0 && errno != EINVAL && errno != EROFS) return false;  // EINVAL: not on a disk
  remember(text);
  return true;
}

}  // namespace plumbline::real
