#include "real/cuda/probe/case.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <utility>
#include <variant>

#include "real/cuda/kernels/arithmetic.h"
#include "real/cuda/kernels/limits.h"
#include "real/cuda/probe/case_keys.h"
#include "real/cuda/probe/group_rows.h"

namespace plumbline::real::cuda {

namespace {

std::string set(Case& value, const CaseKey& key, const std::string& text) {
  if (const auto* word = std::get_if<std::string Case::*>(&key.member)) {
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
  value.*std::get<std::int64_t Case::*>(key.member) = number;
  return "";
}

std::string check_groups(const Case& value) {
  if (value.rows_by == "zipf" && value.groups == 1) return "rows_by=zipf needs several groups";
  if (value.rows_by == "zipf" && rows_of_group(value) % scale_tile != 0) {
    return "rows_by=zipf needs rows that are a multiple of 128";
  }
  if (value.way == "grouped" && (value.format != "bf16" || value.phase == "W")) {
    return "way=grouped is for bf16 in phases F and I: the library's grouped product writes what it reads";
  }
  return "";
}

// What a line's values must satisfy together: the kernels move 16 bytes per thread and access.
std::string check(const Case& value) {
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
  if (operation == "rmsnorm" && value.columns > widest_row)
    return "rmsnorm takes at most " + std::to_string(widest_row) + " columns";
  if (value.elements % 8 != 0) return "elements must be a multiple of 8";
  if (value.bytes % 16 != 0) return "bytes must be a multiple of 16";
  if (value.bytes % (4 * value.ranks) != 0) return "bytes must be whole FP32 numbers for each of the ranks";
  return "";
}

std::vector<std::pair<std::string, std::string>> split(std::istringstream& words, std::string& error) {
  std::vector<std::pair<std::string, std::string>> pairs;
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

ParsedCase parse_case(const std::string& line) {
  ParsedCase parsed;
  std::istringstream words(line);
  words >> parsed.value.op;
  const auto pairs = split(words, parsed.error);
  if (!parsed.error.empty()) return parsed;
  const auto kernel = std::find_if(pairs.begin(), pairs.end(), [](const auto& pair) { return pair.first == "kernel"; });
  const std::vector<CaseKey> keys = keys_of(parsed.value.op, kernel == pairs.end() ? "" : kernel->second);
  if (keys.empty()) {
    parsed.error = parsed.value.op == "partition" ? "partition needs a kernel= that can run beside a copy"
                                                  : "'" + parsed.value.op + "' is no operation";
    return parsed;
  }
  std::vector<std::string> given;
  for (const auto& [name, text] : pairs) {
    const auto key =
        std::find_if(keys.begin(), keys.end(), [&, &wanted = name](const CaseKey& k) { return k.name == wanted; });
    if (key == keys.end()) parsed.error = parsed.value.op + " has no key '" + name + "'";
    if (std::find(given.begin(), given.end(), name) != given.end()) parsed.error = "'" + name + "' is given twice";
    if (parsed.error.empty()) parsed.error = set(parsed.value, *key, text);
    if (!parsed.error.empty()) return parsed;
    given.push_back(name);
  }
  for (const CaseKey& key : keys) {
    if (key.required && std::find(given.begin(), given.end(), key.name) == given.end()) {
      parsed.error = parsed.value.op + " needs " + key.name + "=";
      return parsed;
    }
  }
  parsed.error = check(parsed.value);
  return parsed;
}

std::string to_line(const Case& value) {
  static const Case defaults;
  std::string line = value.op;
  for (const CaseKey& key : keys_of(value.op, value.kernel)) {
    if (const auto* word = std::get_if<std::string Case::*>(&key.member)) {
      if (value.*(*word) != defaults.*(*word)) line += " " + key.name + "=" + value.*(*word);
    } else {
      const auto number = std::get<std::int64_t Case::*>(key.member);
      if (key.required || value.*number != defaults.*number) {
        line += " " + key.name + "=" + std::to_string(value.*number);
      }
    }
  }
  return line;
}

ParsedCases parse_cases(const std::string& text, const std::string& name) {
  ParsedCases parsed;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    ParsedCase one = parse_case(line);
    if (!one.error.empty()) {
      parsed.error = name + ":" + std::to_string(number) + ": " + one.error;
      return parsed;
    }
    parsed.values.push_back(std::move(one.value));
  }
  return parsed;
}

ParsedCases load_cases(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return {{}, path + ": cannot be read, or is empty"};
  return parse_cases(text.str(), path);
}

bool is_collective(const Case& value) {
  const std::string& op = value.op;
  return op == "all_reduce" || op == "all_gather" || op == "reduce_scatter" || op == "all_to_all";
}

std::vector<VariantKey> variants_of(const Case& value) {
  if (value.op == "launch") return {{"", "host_call"}, {"", "stream_gap"}, {"", "graph_node"}, {"", "round_trip"}};
  if (value.op == "graph") return {{"", "host_call"}, {"", "replay"}, {"", "round_trip"}};
  if (is_collective(value)) return {{"hot", "burst"}};
  if (value.op == "host_to_device") return {{"", "pinned_to_device"}, {"", "device_to_pinned"}};
  if (value.op == "copy") return {{"cold", "kernel"}, {"cold", "driver"}};
  if (value.op == "partition") {
    if (value.ctas == 0) return {{"hot", "alone"}};
    return {{"hot", "alone"}, {"hot", "beside"}};
  }
  if (value.soak > 0) return {{"hot", "sustained"}};
  return {{"hot", "burst"}, {"cold", "burst"}};
}

}  // namespace plumbline::real::cuda
