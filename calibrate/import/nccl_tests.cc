#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "calibrate/import/printed_files.h"
#include "model/base/integers.h"
#include "model/base/text.h"
#include "model/cost/collective_cost.h"

namespace plumbline::calibrate {
namespace {

using model::Error;
using model::ErrorKind;
using Words = std::vector<std::string_view>;

constexpr double microsecond = 1e-6;
constexpr std::size_t leading_words = 5;  // size, count, type, redop, root
constexpr std::size_t group = 4;          // time, algbw, busbw, #wrong

Words words_of(std::string_view line) {
  Words words;
  while (true) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(" \t\r"), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

// Returns the collective of a program of nccl-tests; some have another name here.
std::string collective_of_program(std::string_view program) {
  std::string name(program.substr(0, program.rfind("_perf")));
  if (name == "alltoall") return "all_to_all";
  if (name == "sendrecv") return "send_recv";
  return name;
}

// Returns the bytes of a type as nccl-tests print it; nullopt for another.
std::optional<std::int64_t> bytes_of(std::string_view type) {
  if (type == "int8" || type == "uint8" || type.starts_with("fp8") || type.starts_with("f8")) return 1;
  if (type == "half" || type == "bfloat16") return 2;
  if (type == "int32" || type == "uint32" || type == "float") return 4;
  if (type == "int64" || type == "uint64" || type == "double") return 8;
  return std::nullopt;
}

// Returns the number format as docs/measuring.md spells it.
std::string format_of(std::string_view type) {
  if (type == "float") return "fp32";
  if (type == "half") return "fp16";
  if (type == "bfloat16") return "bf16";
  return std::string(type);
}

// Returns bus over algorithm bandwidth of so many ranks (nccl-tests, doc/PERFORMANCE.md).
double bus_factor(std::string_view collective, std::int64_t ranks) {
  if (collective == "broadcast" || collective == "reduce" || collective == "send_recv") return 1;
  const double others = 1 - 1 / static_cast<double>(ranks);
  return collective == "all_reduce" ? 2 * others : others;
}

// Returns the ranks of which that is the factor, "8" or "another number of".
std::string ranks_of_factor(std::string_view collective, double factor) {
  const double others = collective == "all_reduce" ? factor / 2 : factor;
  if (bus_factor(collective, 1) == 1 || !(others > 0 && others < 1)) return "another number of";
  return fmt::format("{:.0f}", 1 / (1 - others));
}

// What a program prints before its rows: the GPUs of one communicator, or of several that ran at the same time.
struct Heading {
  std::int64_t ranks = 0;
  std::set<std::string, std::less<>> hosts, groups;
  std::string device;

  // Returns the NVLink domains, in which a GB200 or GB300 NVL72 has 18 hosts: names of hosts do not show racks.
  std::int64_t nodes() const {
    constexpr std::int64_t rack = 72;
    const bool in_rack = device.find("GB200") != std::string::npos || device.find("GB300") != std::string::npos;
    return in_rack ? model::ceil_div(ranks, rack) : static_cast<std::int64_t>(hosts.size());
  }
};

class Parser {
 public:
  explicit Parser(const std::string& path) : path_(path) { result_.path = path; }

  void line(std::string_view text, int number_of_line) {
    if (error_) return;
    line_ = number_of_line;
    const Words words = words_of(text);
    if (words.empty()) return;
    if (words[0].starts_with('#')) return comment(text, words);
    if (words[0] == "rccl-tests:") source_ = "rccl-tests";
    if (model::parse_number<std::int64_t>(words[0])) row(words);
  }

  model::Result<Measurements> finish() && {
    line_ = 0;
    if (!error_ && result_.values.empty()) fail("no row of sizes and times", "is it the output of nccl-tests?");
    if (error_) return tl::unexpected(*error_);
    return std::move(result_);
  }

 private:
  // Parses "#  Rank  0 Group  0 Pid  7 on  host-1 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3".
  void comment(std::string_view text, const Words& words) {
    if (const auto starting = std::ranges::find(words, "starting:");
        starting != words.end() && starting + 1 != words.end())
      collective_ = collective_of_program(*(starting + 1));
    if (words.size() > 3 && words[1] == "nccl-tests" && words[2] == "version")
      source_ = fmt::format("nccl-tests {}", words[3]);
    if (words.size() < 2 || words[1] != "Rank") return;
    const auto on = std::ranges::find(words, "on");
    if (on == words.end() || on + 1 == words.end()) return;
    if (has_rows_) headings_.clear();
    has_rows_ = false;
    if (words[2] == "0" || headings_.empty()) headings_.emplace_back();
    Heading& heading = headings_.back();
    ++heading.ranks;
    heading.hosts.emplace(*(on + 1));
    if (const auto of = std::ranges::find(words, "Group"); of < on) heading.groups.emplace(*(of + 1));
    const std::size_t bracket = text.find(']');
    const Words device = words_of(bracket == std::string_view::npos ? "" : text.substr(bracket + 1));
    if (heading.device.empty()) heading.device = fmt::format("{}", fmt::join(device, " "));
  }

  // Refuses programs that printed at the same time: no row shows whose it is.
  void fail_with_jobs() {
    std::vector<std::string> jobs;
    for (const Heading& one : headings_)
      jobs.push_back(fmt::format("{} rank{} on {}", one.ranks, one.ranks == 1 ? "" : "s", fmt::join(one.hosts, ", ")));
    fail(fmt::format("{} jobs printed into one another: {}", jobs.size(), fmt::join(jobs, "; ")),
         headings_.back().ranks == 1 ? "build nccl-tests with MPI=1, so that its processes are ranks of one job"
                                     : "give each job a file of its own");
  }

  void row(const Words& words) {
    if (words.size() != leading_words + group && words.size() != leading_words + 2 * group)
      return fail(fmt::format("{} columns; a row has size, count, type, redop, root, and time, algbw, busbw, #wrong "
                              "out of place and in place",
                              words.size()),
                  "");
    if (headings_.size() > 1) return fail_with_jobs();
    if (headings_.empty() || headings_.back().device.empty())
      return fail("no line of the heading names ranks and devices", "keep the lines that begin with '#  Rank'");
    if (const std::size_t groups = headings_.back().groups.size(); groups > 1)
      return fail(fmt::format("{} ranks in {} groups: their communicators ran at the same time", headings_.back().ranks,
                              groups),
                  "measure one communicator, without NCCL_TESTS_SPLIT and NCCL_TESTS_SPLIT_MASK");
    has_rows_ = true;
    const std::int64_t bytes = *model::parse_number<std::int64_t>(words[0]);
    if (bytes == 0) return;
    const std::string collective = collective_.empty() ? collective_of_columns(words) : collective_;
    if (const auto known = model::parse_collective(collective); !known)
      return fail(collective.empty() ? "the columns do not name the collective" : known.error().message,
                  "add a line such as '# Collective test starting: all_gather_perf' above, of one of the collectives "
                  "that plumbline reads");
    add(collective, "out_of_place", bytes, words, leading_words);
    if (words.size() > leading_words + group) add(collective, "in_place", bytes, words, leading_words + group);
  }

  // All-reduce and reduce-scatter have a reduction but no root; the count of reduce-scatter is that of one rank. A root
  // without a reduction means broadcast.
  std::string collective_of_columns(const Words& words) const {
    const auto bytes = model::parse_number<std::int64_t>(words[0]), count = model::parse_number<std::int64_t>(words[1]);
    const auto element = bytes_of(words[2]);
    const bool sums = words[3] != "none";
    const auto root = model::parse_number<int>(words[4]);
    if (!count || !element || !root) return "";
    if (*root >= 0) return sums ? "" : "broadcast";
    if (!sums) return "";
    if (*bytes == *count * *element) return "all_reduce";
    return *bytes == *count * *element * headings_.back().ranks ? "reduce_scatter" : "";
  }

  void add(const std::string& collective, const char* variant, std::int64_t bytes, const Words& words,
           std::size_t first) {
    const auto time = model::parse_number<double>(words[first]), rate = model::parse_number<double>(words[first + 1]);
    if (!time || !rate || !(*time > 0) || !std::isnormal(*time * microsecond))
      return fail(fmt::format("{}: '{}' is no time above 0", variant, words[first]), "");
    // Rates are printed with two digits: the tolerance is half a unit of the last digit, and that of the time.
    const double expected = static_cast<double>(bytes) / *time / 1e3;
    constexpr double digits = 0.01, share = 0.02;
    if (std::abs(*rate - expected) > digits + share * expected)
      return fail(fmt::format("{}: algbw is {}, but size over time is {:.2f} GB/s", variant, *rate, expected),
                  "time is in microseconds, 1 GB is 10^9 bytes");
    const auto wrong = model::parse_number<double>(words[first + 3]);
    if (wrong && *wrong > 0)
      return fail(fmt::format("{}: {} results are wrong", variant, words[first + 3]),
                  "what computes wrongly is no measurement: repair the machine, or remove the row");
    const Heading& heading = headings_.back();
    const auto bus = model::parse_number<double>(words[first + 2]);
    const double factor = bus_factor(collective, heading.ranks);
    // Half a unit of the last digit of both.
    if (bus && std::abs(*bus - *rate * factor) > digits * (1 + factor) / 2)
      return fail(fmt::format("{}: bus over algorithm bandwidth, {:.3f}, is that of {} ranks, the heading has {}",
                              variant, *bus / *rate, ranks_of_factor(collective, *bus / *rate), heading.ranks),
                  "keep one 'Rank' line for each rank of the communicator");
    const auto [before, fresh] =
        lines_.try_emplace({collective, variant, bytes, heading.ranks, format_of(words[2])}, line_);
    if (!fresh)
      return fail(fmt::format("{} of {} bytes {} is on line {}, too", collective, bytes, variant, before->second),
                  "a file of measurements has each case once: import the output of one cycle of one program");
    Measurement m;
    m.source = source_;
    m.device = heading.device;
    m.op = collective;
    m.format = format_of(words[2]);
    m.variant = variant;
    m.shape = {{"bytes", bytes}, {"ranks", heading.ranks}, {"nodes", heading.nodes()}};
    m.time.p50 = *time * microsecond;
    m.note = "mean over the iterations";
    if (static_cast<std::size_t>(heading.nodes()) != heading.hosts.size())
      m.note += fmt::format(", {} hosts in NVLink domains of 72 GPUs", heading.hosts.size());
    result_.values.push_back(std::move(m));
  }

  void fail(std::string message, std::string hint) {
    if (!error_) error_ = Error{ErrorKind::input, std::move(message), path_, line_, "", std::move(hint)};
  }

  const std::string& path_;
  std::string source_ = "nccl-tests", collective_;
  std::vector<Heading> headings_;  // since the last row
  bool has_rows_ = false;          // of these headings
  // Of each case: collective, variant, bytes, ranks and type.
  std::map<std::tuple<std::string, std::string, std::int64_t, std::int64_t, std::string>, int> lines_;
  Measurements result_;
  int line_ = 0;
  std::optional<Error> error_;
};

}  // namespace

model::Result<Measurements> parse_nccl_tests(std::string_view text, const std::string& path) {
  Parser parser(path);
  visit_printed_lines(text, [&](std::string_view line, int number, bool) { parser.line(line, number); });
  return std::move(parser).finish();
}

}  // namespace plumbline::calibrate
