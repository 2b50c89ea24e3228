#include "real/measure/kernel_case/case_sweep.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

namespace plumbline::real {
namespace {

// The outcome of one case.
enum class CaseEnd { measured, failed, device_lost, cannot_write };

std::string short_line(const Series& series) {
  constexpr double micro = 1e-6, tera = 1e12, giga = 1e9;
  const Subject& subject = series.subject;
  const double p50 = spread_of(series.seconds).p50;
  const std::string time = fmt::format("{}{}{} {:.{}f} us", subject.cache, subject.cache.empty() ? "" : " ",
                                       subject.variant, p50 / micro, subject.bytes > 0 ? 1 : 2);
  if (subject.flops > 0) return fmt::format("{}, {:.0f} TFLOP/s", time, subject.flops / p50 / tera);
  return subject.bytes > 0 ? fmt::format("{}, {:.0f} GB/s", time, subject.bytes / p50 / giga) : time;
}

class Sweep {
 public:
  Sweep(CaseMachine& machine, Journal& journal, const CaseRecords& records, const SweepOptions& options,
        const std::function<void(const std::string&)>& log)
      : machine_(machine), journal_(journal), records_(records), options_(options), log_(log) {}

  CaseEnd run(const KernelCase& what) {
    std::vector<RunnableWorkload> workload(1);
    const auto series = measured(what, workload);
    if (!series) return fail(what, series.error().message);
    std::string line = to_line(what) + ":";
    for (const Series& one : *series) {
      line += (&one == series->data() ? " " : "; ") + short_line(one);
      if (!write(what, one, *workload.front().runner)) return CaseEnd::cannot_write;
    }
    log_(line);
    return CaseEnd::measured;
  }

 private:
  // The caller keeps the workload, because its runner has the findings.
  model::Result<std::vector<Series>> measured(const KernelCase& what, std::vector<RunnableWorkload>& workload) {
    const std::size_t rounds = rounds_of(what);
    const int samples = (options_.samples + static_cast<int>(rounds) - 1) / static_cast<int>(rounds);
    auto runner = TRY(machine_.prepare(what, samples));
    workload.front() = {std::move(runner), subjects_of(what)};
    return measure_in_rounds(workload, {.rounds = rounds}, {});
  }

  CaseEnd fail(const KernelCase& what, std::string reason) {
    const bool lost = machine_.lost();
    if (lost) reason += " (the device context is lost)";
    log_(to_line(what) + ": " + reason);
    if (options_.writes && !journal_.append(records_.failed(what, reason))) return CaseEnd::cannot_write;
    return lost ? CaseEnd::device_lost : CaseEnd::failed;
  }

  // Writes the records of the case that the file does not have.
  bool write(const KernelCase& what, const Series& series, const Runner& runner) {
    if (!options_.writes || journal_.has(series.subject)) return true;
    const std::vector<Subject> subjects = subjects_of(what);
    const auto own = std::ranges::find(subjects, series.subject.place(), &Subject::place);
    const auto index = static_cast<std::size_t>(own - subjects.begin());
    return journal_.append(records_.measured(what, series, runner.findings(index)));
  }

  CaseMachine& machine_;
  Journal& journal_;
  const CaseRecords& records_;
  const SweepOptions& options_;
  const std::function<void(const std::string&)>& log_;
};

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

// The correction is a moving average in which the newest case counts a quarter, within limits against odd cases.
constexpr double weight = 0.25, least_correction = 0.2, most_correction = 10;
// The seconds of a case for allocating, filling and checking, and those for each byte (assumed).
constexpr double overhead_seconds = 0.1, setup_seconds_per_byte = 1.0 / 200e9;
constexpr double attention_seconds = 1.5;  // the library compiles one plan per new shape, two for gradients

}  // namespace

SweepSummary measure_cases(const std::vector<KernelCase>& cases, CaseMachine& machine, Journal& journal, Budget& budget,
                           const CaseRecords& records, const SweepOptions& options,
                           const std::function<void(const std::string&)>& log) {
  SweepSummary summary;
  Sweep sweep(machine, journal, records, options, log);
  for (const KernelCase& what : cases) {
    if (options.interrupted && options.interrupted()) {
      summary.end = SweepEnd::interrupted;
      return summary;
    }
    if (!options.in_step && (journal.complete(what) || (journal.failed(what) && !options.retry))) {
      ++summary.skipped;
      continue;
    }
    const double estimate = estimated_seconds(what, options.floor_s(what), options.samples);
    if (!options.in_step && !budget.fits(estimate)) {
      ++summary.postponed;
      continue;
    }
    const double start = budget.elapsed();
    const CaseEnd end = sweep.run(what);
    budget.spent(estimate, budget.elapsed() - start);
    ++(end == CaseEnd::measured ? summary.measured : summary.failed);
    if (end == CaseEnd::cannot_write || end == CaseEnd::device_lost) {
      summary.end = end == CaseEnd::cannot_write ? SweepEnd::cannot_write : SweepEnd::device_lost;
      return summary;
    }
  }
  if (summary.postponed > 0) summary.end = SweepEnd::out_of_time;
  return summary;
}

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

std::optional<double> parse_duration(const std::string& text) {
  if (text.empty() || !(text[0] >= '0' && text[0] <= '9')) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const double factor = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (number * factor <= 0 || number * factor > 1e7) return std::nullopt;
  return number * factor;
}

double estimated_seconds(const KernelCase& value, double floor_s, int samples) {
  const std::vector<Subject> subjects = subjects_of(value);
  const double runs = static_cast<double>(subjects.size()) * (samples + 5);
  const double plans = value.operation() == "attention" ? attention_seconds : 0;
  const double bytes = is_collective(value) ? 0 : subjects.front().bytes;
  return overhead_seconds + plans + static_cast<double>(value.soak) + 2 * std::max(floor_s, 0.0) * runs +
         setup_seconds_per_byte * bytes;
}

std::size_t rounds_of(const KernelCase& value) {
  constexpr std::size_t turns = 5;
  return value.soak > 0 ? 1 : turns;
}

Budget::Budget(std::optional<double> seconds, std::function<double()> clock)
    : seconds_(seconds), clock_(std::move(clock)), start_(clock_()) {}

bool Budget::fits(double estimate) const {
  const std::optional<double> rest = left();
  return !rest || estimate * correction_ <= *rest;
}

void Budget::spent(double estimate, double seconds) {
  if (estimate <= 0) return;
  const double corrected = (1 - weight) * correction_ + weight * seconds / estimate;
  correction_ = std::clamp(corrected, least_correction, most_correction);
}

double Budget::elapsed() const { return clock_() - start_; }

std::optional<double> Budget::left() const {
  if (!seconds_) return std::nullopt;
  return *seconds_ - elapsed();
}

}  // namespace plumbline::real
