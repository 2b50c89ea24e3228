// Changes of a plan by its keys: a value for another, a key more or less, another plan.
#include <algorithm>
#include <array>
#include <random>
#include <string>

#include "model/base/text.h"
#include "model/plan/plan_key_table.h"
#include "tests/fuzz/targets.h"

namespace plumbline::fuzz {
namespace {

// Numbers at which rules of plans change their mind, and words that are none.
constexpr auto values = std::to_array<const char*>({"0",           "1",
                                                    "2",           "3",
                                                    "4",           "6",
                                                    "8",           "16",
                                                    "32",          "64",
                                                    "128",         "256",
                                                    "2048",        "-1",
                                                    "4096",        "32768",
                                                    "0.1",         "0.5",
                                                    "0.99",        "1.5",
                                                    "1e-9",        "1e9",
                                                    "1e300",       "nan",
                                                    "inf",         "9223372036854775807",
                                                    "true",        "false",
                                                    "[]",          "[1]",
                                                    "[1, 2, 3]",   "\"\"",
                                                    "\"x\"",       "{}",
                                                    "{nic = 0.5}", "2026-11-27"});
constexpr auto plans = std::to_array<const char*>({"deepseek-v3-2048xh800", "deepseek-67b-512xh800",
                                                   "llama-3-8b-64xh800", "llama-3-8b-fsdp-64xh100", "h100-chunk",
                                                   "host-dualpipe", "host-tiny-moe", "gpu-train"});
constexpr auto clusters = std::to_array<const char*>(
    {"cluster.topology=h100-dgx", "cluster.topology=b200-hgx", "cluster.topology=mi300x",
     "cluster.topology=ethernet-leaf-spine", "cluster.profile=h100-torch", "cluster.profile=h800-datasheet",
     "stack.name=torchtitan-compile", "stack.name=megatron-core-2025", "stack.name=none", "model.num_hidden_layers=3",
     "model.num_attention_heads=7", "profile.gemm.*=0.5", "topology.nic_bandwidth=1"});

const std::vector<model::PlanKey>& keys() {
  static const std::vector<model::PlanKey> table = model::plan_key_table();
  return table;
}

class PlanChange {
 public:
  PlanChange(const std::string& text, unsigned seed) : random_(seed) {
    for (const std::string_view line : model::lines_of(text)) lines_.emplace_back(line);
    if (lines_.empty()) lines_.emplace_back(one_of(plans));
  }

  void change() {
    constexpr std::size_t kinds = 8;
    const std::size_t kind = below(kinds);
    if (kind == 0) lines_.front() = one_of(plans);
    if (kind == 1) lines_.emplace_back(one_of(clusters));
    if (kind == 2 || kind == 3) add_key();
    if (kind == 4 && lines_.size() > 1)
      lines_.erase(lines_.begin() + 1 + static_cast<std::ptrdiff_t>(below(lines_.size() - 1)));
    if (kind > 4) change_value();
  }

  std::string text() const {
    std::string result;
    for (const std::string& line : lines_) result += line + "\n";
    return result;
  }

 private:
  std::size_t below(std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_); }
  template <class List>
  const typename List::value_type& one_of(const List& list) {
    return list[below(list.size())];
  }

  std::string value_of(const model::PlanKey& key) {
    if (!key.words.empty() && below(4) > 0) return one_of(key.words);
    return one_of(values);
  }

  void add_key() {
    const model::PlanKey& key = one_of(keys());
    lines_.push_back(key.name + "=" + value_of(key));
  }

  void change_value() {
    std::string& line = lines_[below(lines_.size())];
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) return add_key();
    const auto known = std::ranges::find(keys(), line.substr(0, equals), &model::PlanKey::name);
    line.replace(equals + 1, std::string::npos, known == keys().end() ? one_of(values) : value_of(*known));
  }

  std::mt19937 random_;
  std::vector<std::string> lines_;
};

}  // namespace

std::string mutate_plan(const std::string& text, std::size_t capacity, unsigned seed) {
  PlanChange plan(text, seed);
  for (unsigned changes = 1 + seed % 3; changes > 0; --changes) plan.change();
  std::string changed = plan.text();
  return changed.size() <= capacity ? changed : text;
}

}  // namespace plumbline::fuzz
