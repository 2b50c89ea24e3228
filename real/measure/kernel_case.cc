#include "real/measure/kernel_case.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <utility>
#include <variant>

#include "real/cuda/kernels/limits.h"
#include "real/measure/kernel_case_keys.h"

namespace plumbline::real {

namespace {

constexpr std::int64_t row_block = 128;  // rows that share a scale of an FP8 operand along k

// Of one group, or their mean.
std::int64_t rows_of_group(const KernelCase& value) { return value.phase == "W" ? value.k : value.m; }

std::string set(KernelCase& value, const CaseKey& key, const std::string& text) {
  if (const auto* word = std::get_if<std::string KernelCase::*>(&key.member)) {
    const bool known = key.words.empty() || std::find(key.words.begin(), key.words.end(), text) != key.words.end();
    if (!known) return "'" + text + "' is no " + key.name;
    value.*(*word) = text;
    return "";
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return key.name + " = '" + text + "' is no whole number";
  }
  if (number < key.least || number > key.most) {
    return key.name + " = " + text + " is outside " + std::to_string(key.least) + " to " + std::to_string(key.most);
  }
  value.*std::get<std::int64_t KernelCase::*>(key.member) = number;
  return "";
}

std::string check_groups(const KernelCase& value) {
  if (value.rows_by == "zipf" && value.groups == 1) return "rows_by=zipf needs several groups";
  if (value.rows_by == "zipf" && rows_of_group(value) % row_block != 0) {
    return "rows_by=zipf needs rows that are a multiple of 128";
  }
  if (value.way == "grouped" && (value.format != "bf16" || value.phase == "W")) {
    return "way=grouped is for bf16 in phases F and I: the library's grouped product writes what it reads";
  }
  return "";
}

// What a line's values must satisfy together: the kernels move 16 bytes per thread and access.
std::string check(const KernelCase& value) {
  const std::string& operation = value.operation();
  if (const std::string problem = check_groups(value); !problem.empty()) return problem;
  if (value.by == "green" && value.ctas == 0) return "by=green needs ctas of at least 1";
  if (operation == "gemm" && value.fast_accumulation != 0 && value.format != "fp8_tensor") {
    return "fast_accumulation is a choice of fp8_tensor only";
  }
  if (operation == "gemm" && value.format != "bf16" && (value.m % 16 != 0 || value.n % 16 != 0 || value.k % 16 != 0)) {
    return "FP8 products need m, n and k that are multiples of 16";
  }
  if (operation == "gemm" && (value.m % 8 != 0 || value.n % 8 != 0 || value.k % 8 != 0)) {
    return "products need m, n and k that are multiples of 8";
  }
  if (value.kv_heads > 0 && value.heads % value.kv_heads != 0) return "heads must be a multiple of kv_heads";
  if (value.qk_dim % 8 != 0 || value.v_dim % 8 != 0) return "qk_dim and v_dim must be multiples of 8";
  if (operation == "quantise" && value.columns % 128 != 0) return "columns must be a multiple of 128";
  if (value.columns % 8 != 0) return "columns must be a multiple of 8";
  if (operation == "rmsnorm" && value.columns > cuda::widest_row)
    return "rmsnorm takes at most " + std::to_string(cuda::widest_row) + " columns";
  if (value.elements % 8 != 0) return "elements must be a multiple of 8";
  if (value.bytes % 16 != 0) return "bytes must be a multiple of 16";
  if (value.bytes % (4 * value.ranks) != 0) return "bytes must be whole FP32 numbers for each of the ranks";
  return "";
}

using Pair = std::pair<std::string, std::string>;
std::vector<Pair> split(std::istringstream& words, std::string& error) {
  std::vector<Pair> pairs;
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == 0 || equals == std::string::npos) {
      error = "'" + word + "' is not key=value";
      return {};
    }
    pairs.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return pairs;
}

}  // namespace

model::Result<KernelCase> parse_kernel_case(const std::string& line) {
  const auto wrong = [](std::string message) {
    return tl::unexpected(model::Error{model::ErrorKind::input, std::move(message)});
  };
  KernelCase value;
  std::istringstream words(line);
  words >> value.op;
  std::string problem;
  const auto pairs = split(words, problem);
  if (!problem.empty()) return wrong(problem);
  const auto kernel = std::ranges::find(pairs, "kernel", &Pair::first);
  const std::vector<CaseKey> keys = keys_of(value.op, kernel == pairs.end() ? "" : kernel->second);
  if (keys.empty())
    return wrong(value.op == "partition" ? "partition needs a kernel= that can run beside a copy"
                                         : "'" + value.op + "' is no operation");
  std::set<std::string> given;
  for (const auto& [name, text] : pairs) {
    const auto key = std::ranges::find(keys, name, &CaseKey::name);
    if (key == keys.end()) return wrong(value.op + " has no key '" + name + "'");
    if (!given.insert(name).second) return wrong("'" + name + "' is given twice");
    if (problem = set(value, *key, text); !problem.empty()) return wrong(problem);
  }
  for (const CaseKey& key : keys)
    if (key.required && !given.contains(key.name)) return wrong(value.op + " needs " + key.name + "=");
  if (problem = check(value); !problem.empty()) return wrong(problem);
  return value;
}

std::string to_line(const KernelCase& value) {
  static const KernelCase defaults;
  std::string line = value.op;
  for (const CaseKey& key : keys_of(value.op, value.kernel)) {
    if (const auto* word = std::get_if<std::string KernelCase::*>(&key.member)) {
      if (value.*(*word) != defaults.*(*word)) line += " " + key.name + "=" + value.*(*word);
    } else {
      const auto number = std::get<std::int64_t KernelCase::*>(key.member);
      if (key.required || value.*number != defaults.*number) {
        line += " " + key.name + "=" + std::to_string(value.*number);
      }
    }
  }
  return line;
}

bool is_collective(const KernelCase& value) {
  const std::string& op = value.op;
  return op == "all_reduce" || op == "all_gather" || op == "reduce_scatter" || op == "all_to_all";
}

std::vector<std::int64_t> group_rows(const KernelCase& value) {
  const std::int64_t mean = rows_of_group(value);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(value.groups), mean);
  if (value.rows_by != "zipf") return rows;
  double sum = 0;
  for (std::int64_t rank = 1; rank <= value.groups; ++rank) sum += 1.0 / static_cast<double>(rank);
  // One block each; of the others the share, rounded down. What that leaves goes to the largest groups.
  std::int64_t left = mean / row_block * value.groups - value.groups;
  const auto shared = static_cast<double>(left);
  for (std::size_t group = 0; group < rows.size(); ++group) {
    const auto share = static_cast<std::int64_t>(shared / sum / static_cast<double>(group + 1));
    rows[group] = (1 + share) * row_block;
    left -= share;
  }
  for (std::size_t group = 0; left > 0; ++group, --left) rows[group % rows.size()] += row_block;
  return rows;
}

}  // namespace plumbline::real
