#include "calibrate/import/kernel_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <utility>

#include "model/base/table_reader.h"
#include "model/base/text.h"

namespace plumbline::calibrate {
namespace {

using model::TableReader;
using Texts = std::vector<std::string>;

// A limit, as deep recursion of std::regex on a very long name would overflow the stack. The significant part of a
// kernel name comes first.
constexpr std::size_t longest_match = 1024;
constexpr std::size_t longest_pattern = 256;  // also a limit on the depth of its groups

#ifdef __GLIBCXX__  // its default takes time that is exponential in the name for patterns such as (a+)+b
constexpr auto regex_options = std::regex::ECMAScript | std::regex_constants::__polynomial;
#else
constexpr auto regex_options = std::regex::ECMAScript | std::regex::optimize;
#endif

// Whether a quantifier stands at the position.
bool repeats_at(std::string_view pattern, std::size_t at) {
  return at < pattern.size() && (pattern[at] == '*' || pattern[at] == '+' || pattern[at] == '{');
}

// Whether a pattern repeats a group that contains a repetition, as (a+)+ does: matchers that backtrack take time that
// is exponential in the name for it.
bool nests_repetitions(std::string_view pattern) {
  std::vector<bool> repeated(1);  // of the pattern and of each open group: whether it contains a repetition
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    bool inner = false;
    if (pattern[i] == '(') {
      repeated.push_back(false);
      continue;
    }
    if (pattern[i] == ')' && repeated.size() > 1) {
      inner = repeated.back();
      repeated.pop_back();
    } else if (pattern[i] == '\\') {
      ++i;
    } else if (pattern[i] == '[') {
      for (++i; i < pattern.size() && pattern[i] != ']'; ++i) i += pattern[i] == '\\' ? 1 : 0;
    }
    const bool again = repeats_at(pattern, i + 1);
    if (inner && again) return true;
    repeated.back() = repeated.back() || inner || again;
  }
  return false;
}

// A pattern without special characters is searched as plain text, which is much faster.
class Pattern {
 public:
  explicit Pattern(const std::string& text) : text_(text) {
    if (text.find_first_of("^$\\.*+?()[]{}|") != std::string::npos) regex_.emplace(text, regex_options);
  }
  bool matches(std::string_view name) const {
    name = name.substr(0, longest_match);
    if (!regex_) return name.find(text_) != std::string_view::npos;
    return std::regex_search(name.begin(), name.end(), *regex_);
  }

 private:
  std::string text_;
  std::optional<std::regex> regex_;
};

template <class T>
struct Rule {
  T value;
  std::vector<Pattern> patterns;

  bool matches(std::string_view name) const {
    return std::ranges::any_of(patterns, [&](const Pattern& pattern) { return pattern.matches(name); });
  }
};

template <class T>
const T* first_match(const std::vector<Rule<T>>& rules, std::string_view name) {
  const auto found = std::ranges::find_if(rules, [&](const Rule<T>& rule) { return rule.matches(name); });
  return found == rules.end() ? nullptr : &found->value;
}

struct LayerRule {
  std::regex pattern;  // whose only group is the number; none where occurrences are counted
  std::string phase;   // of the work that the number is of: "F", "B"; empty: of both
  bool counted = false;
};

}  // namespace

struct KernelClasses::State {
  Texts rows;
  std::vector<Rule<KernelClass>> classes;
  std::vector<Rule<PhaseAnnotation>> phases;
  std::vector<LayerRule> layers;
  std::vector<OperatorChain> chains;
};

namespace {

using ClassState = KernelClasses::State;

void check_listed(TableReader& table, std::string_view key, const std::string& value, const Texts& known) {
  if (std::ranges::find(known, value) == known.end())
    table.fail(key, table.line(), fmt::format("'{}' is not known", value), model::known_names(value, known));
}

// Returns the patterns before the first that is wrong.
std::vector<Pattern> patterns(TableReader& table) {
  std::vector<Pattern> result;
  const auto fail = [&](std::string message, std::string hint) {
    table.fail("patterns", table.line(), std::move(message), std::move(hint));
    return result;
  };
  for (const std::string& pattern : table.texts("patterns")) {
    if (pattern.empty()) return fail("expected a list of strings that are not empty", "");
    if (pattern.size() > longest_pattern)
      return fail(fmt::format("a pattern has more than {} characters", longest_pattern), "split it into several");
    if (nests_repetitions(pattern))
      return fail(fmt::format("'{}' repeats a group that repeats already", pattern),
                  "its time can be exponential in a name: write [A-Za-z_:]* for ([A-Za-z_]+::)*");
    try {
      result.emplace_back(pattern);
    } catch (const std::regex_error&) {
      return fail(fmt::format("'{}' is no regular expression", pattern),
                  "ECMAScript as in JavaScript, without \\1; put \\ before a character that is meant as it stands");
    }
  }
  return result;
}

void read_class(TableReader& table, ClassState& state) {
  Rule<KernelClass> rule;
  READ_REQUIRED(table, rule.value, name, compare);
  const auto same = [&](const Rule<KernelClass>& other) { return other.value.name == rule.value.name; };
  if (std::ranges::any_of(state.classes, same))
    table.fail("name", table.line(), fmt::format("'{}' appears twice", rule.value.name), "join their patterns");
  check_listed(table, "compare", rule.value.compare, state.rows);
  rule.patterns = patterns(table);
  state.classes.push_back(std::move(rule));
}

void read_chain(TableReader& table, ClassState& state) {
  OperatorChain chain{.forward = table.text("class")};
  READ_REQUIRED(table, chain, gradient);
  READ_OPTIONAL(table, chain, residual);
  Texts classes;
  for (const Rule<KernelClass>& rule : state.classes) classes.push_back(rule.value.name);
  check_listed(table, "class", chain.forward, classes);
  check_listed(table, "gradient", chain.gradient, classes);
  for (std::string& link : table.texts("operators")) {
    const bool optional = link.ends_with('?');
    if (optional) link.pop_back();
    if (link.empty()) table.fail("operators", table.line(), "expected a list of strings that are not empty", "");
    OperatorChain::Link& added = chain.links.emplace_back();
    added.optional = optional;
    for (const std::string_view name : model::split_at(link, '|')) added.names.emplace_back(name);
  }
  if (std::ranges::all_of(chain.links, &OperatorChain::Link::optional))
    table.fail("operators", table.line(), "all of its operators may be missing", "leave out the ? of one of them");
  state.chains.push_back(std::move(chain));
}

void read_phase(TableReader& table, ClassState& state) {
  Rule<PhaseAnnotation> rule;
  READ_REQUIRED(table, rule.value, phase);
  check_listed(table, "phase", rule.value.phase, {"F", "B", "I", "W"});
  READ_OPTIONAL(table, rule.value, section);
  if (const std::string order = table.optional_text("layers"); !order.empty()) {
    check_listed(table, "layers", order, {"ascending", "descending"});
    rule.value.descending = order == "descending";
  }
  rule.patterns = patterns(table);
  state.phases.push_back(std::move(rule));
}

void read_layer(TableReader& table, ClassState& state) {
  LayerRule rule;
  READ_OPTIONAL(table, rule, phase, counted);
  if (!rule.phase.empty()) check_listed(table, "phase", rule.phase, {"F", "B"});
  const std::size_t right = patterns(table).size();
  const Texts texts = table.texts("patterns");
  if (right < texts.size()) return;
  for (const std::string& text : texts) {
    rule.pattern = std::regex(text, regex_options | std::regex::icase);
    const bool number = rule.pattern.mark_count() == 1;
    if (!number && !rule.counted)
      table.fail("patterns", table.line(), fmt::format("'{}' has not one group", text),
                 "the group is the layer's number");
    state.layers.push_back(rule);
  }
}

}  // namespace

const KernelClass* KernelClasses::find(std::string_view kernel_name) const {
  return first_match(state_->classes, kernel_name);
}

const KernelClass* KernelClasses::named(std::string_view class_name) const {
  const auto same = [&](const Rule<KernelClass>& rule) { return rule.value.name == class_name; };
  const auto found = std::ranges::find_if(state_->classes, same);
  return found == state_->classes.end() ? nullptr : &found->value;
}

std::string_view KernelClasses::compare_row(std::string_view class_name) const {
  const KernelClass* found = named(class_name);
  return found == nullptr ? other_class : std::string_view(found->compare);
}

std::size_t OperatorChain::match(std::span<const std::string_view> operators) const {
  std::size_t count = 0;
  for (const Link& link : links) {
    if (count < operators.size() && std::ranges::find(link.names, operators[count]) != link.names.end())
      ++count;
    else if (!link.optional)
      return 0;
  }
  return count;
}

const std::vector<OperatorChain>& KernelClasses::chains() const { return state_->chains; }

const PhaseAnnotation* KernelClasses::annotation(std::string_view name) const {
  return first_match(state_->phases, name);
}

LayerAnnotation KernelClasses::layer(std::string_view annotation) const {
  annotation = annotation.substr(0, longest_match);
  LayerAnnotation found;
  for (const LayerRule& rule : state_->layers) {
    std::cmatch match;
    if (!std::regex_search(annotation.begin(), annotation.end(), match, rule.pattern)) continue;
    found.counted = found.counted || rule.counted;
    if (rule.counted) continue;
    const auto number =
        model::parse_number<int>(std::string_view(match[1].first, static_cast<std::size_t>(match[1].length())));
    if (rule.phase != "B" && !found.forward) found.forward = number;
    if (rule.phase != "F" && !found.backward) found.backward = number;
  }
  found.counted = found.counted && !found.forward && !found.backward;
  return found;
}

model::Result<KernelClasses> load_kernel_classes(const std::string& path) {
  auto state = std::make_shared<ClassState>();
  TRY(model::read_table_file(path, [&](TableReader& file) {
    const auto tables = [&](const char* key, void (*read)(TableReader&, ClassState&)) {
      file.optional_tables(key, [&](TableReader& table) { read(table, *state); });
    };
    READ_REQUIRED(file, *state, rows);
    file.require("class");
    tables("class", read_class);
    tables("chain", read_chain);
    file.require("phase");
    tables("phase", read_phase);
    tables("layer", read_layer);
  }));
  return KernelClasses(std::move(state));
}

}  // namespace plumbline::calibrate
