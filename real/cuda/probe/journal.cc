#include "real/cuda/probe/journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "real/cuda/json_line.h"

namespace plumbline::real::cuda {

namespace {

std::string identity(const std::string& line, const VariantKey& variant) {
  return line + "\n" + variant.cache + "\n" + variant.variant;
}

std::string read_all(int file) {
  std::string text;
  char buffer[1 << 16];
  for (ssize_t got = 0; (got = read(file, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

std::unique_ptr<Journal> Journal::open(const std::string& path, const std::string& device, std::string& error) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) {
    error = path + ": " + std::strerror(errno);
    return nullptr;
  }
  std::unique_ptr<Journal> journal(new Journal(file, device));
  struct stat status {};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return journal;  // /dev/null or a pipe: nothing to resume
  const std::string text = read_all(file);
  const std::size_t end = text.rfind('\n');
  const std::size_t whole = end == std::string::npos ? 0 : end + 1;
  if (whole != text.size() && ftruncate(file, static_cast<off_t>(whole)) != 0) {
    error = path + ": the unfinished last line cannot be cut off: " + std::strerror(errno);
    return nullptr;
  }
  std::istringstream lines(text.substr(0, whole));
  for (std::string line; std::getline(lines, line);) journal->remember(line);
  journal->found_ = journal->measured_.size();
  return journal;
}

Journal::~Journal() { close(file_); }

void Journal::remember(const std::string& line) {
  if (read_text(line, "device") != device_) return;
  const std::string kind = read_text(line, "kind");
  const std::string what = read_text(line, "case");
  if (kind == "measurement") {
    measured_.insert(identity(what, {read_text(line, "cache"), read_text(line, "variant")}));
  } else if (kind == "failure") {
    failed_.insert(what);
  }
}

bool Journal::has(const Case& what, const VariantKey& variant) const {
  return measured_.count(identity(to_line(what), variant)) != 0;
}

bool Journal::complete(const Case& what) const {
  const std::vector<VariantKey> variants = variants_of(what);
  return std::all_of(variants.begin(), variants.end(), [&](const VariantKey& variant) { return has(what, variant); });
}

bool Journal::failed(const Case& what) const { return failed_.count(to_line(what)) != 0; }

bool Journal::append(const std::string& line) {
  const std::string text = line + "\n";
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t count = write(file_, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    written += static_cast<std::size_t>(count);
  }
  if (fdatasync(file_) != 0 && errno != EINVAL && errno != EROFS) return false;  // EINVAL: no disk behind it
  remember(line);
  return true;
}

}  // namespace plumbline::real::cuda
