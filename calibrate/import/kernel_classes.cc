#include "calibrate/import/kernel_classes.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <optional>
#include <regex>
#include <utility>

#include "model/base/text.h"
#include "model/base/text_file.h"

namespace plumbline::calibrate {
namespace {

using model::Error;
using model::ErrorKind;
using Names = std::vector<std::string>;

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

int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

}  // namespace

struct KernelClasses::State {
  Names rows;
  std::vector<Rule<KernelClass>> classes;
  std::vector<Rule<PhaseAnnotation>> phases;
  std::vector<LayerRule> layers;
  std::vector<OperatorChain> chains;
};

namespace {

// Fills a State from the file; stops at the first error.
class ClassesReader {
 public:
  explicit ClassesReader(const std::string& path) : path_(path) {}

  model::Result<KernelClasses> read(const toml::table& root) {
    check_keys(root, {"rows", "class", "chain", "phase", "layer"}, "");
    state_->rows = texts(root, "rows", "rows");
    for_each(root, "class", [this](const toml::table& table) { read_class(table); });
    if (root.contains("chain")) for_each(root, "chain", [this](const toml::table& table) { read_chain(table); });
    for_each(root, "phase", [this](const toml::table& table) { read_phase(table); });
    if (root.contains("layer")) for_each(root, "layer", [this](const toml::table& table) { read_layer(table); });
    if (error_) return tl::unexpected(*error_);
    return KernelClasses(std::move(state_));
  }

 private:
  template <class Visit>
  void for_each(const toml::table& root, std::string_view key, const Visit& visit) {
    const toml::array* list = root[key].as_array();
    if (list == nullptr || !list->is_array_of_tables())
      return fail(root, key, "expected a list of tables", fmt::format("write each as [[{}]]", key));
    for (const toml::node& item : *list) visit(*item.as_table());
  }

  void read_class(const toml::table& table) {
    check_keys(table, {"name", "compare", "patterns"}, "class.");
    Rule<KernelClass> rule{{text(table, "name", "class.name"), text(table, "compare", "class.compare")}, {}};
    const auto same = [&](const Rule<KernelClass>& other) { return other.value.name == rule.value.name; };
    if (std::ranges::any_of(state_->classes, same))
      fail(table, "class.name", fmt::format("'{}' appears twice", rule.value.name), "join their patterns");
    check_listed(table, "class.compare", rule.value.compare, state_->rows);
    rule.patterns = patterns(table, "class.patterns");
    state_->classes.push_back(std::move(rule));
  }

  void read_chain(const toml::table& table) {
    check_keys(table, {"class", "gradient", "residual", "operators"}, "chain.");
    OperatorChain chain{text(table, "class", "chain.class"), text(table, "gradient", "chain.gradient"), {}};
    Names classes;
    for (const Rule<KernelClass>& rule : state_->classes) classes.push_back(rule.value.name);
    check_listed(table, "chain.class", chain.forward, classes);
    check_listed(table, "chain.gradient", chain.gradient, classes);
    chain.residual = truth(table, "residual", "chain.residual");
    for (std::string& link : texts(table, "operators", "chain.operators")) {
      const bool optional = link.back() == '?';
      if (optional) link.pop_back();
      OperatorChain::Link& added = chain.links.emplace_back();
      added.optional = optional;
      for (const std::string_view name : model::split(link, '|')) added.names.emplace_back(name);
    }
    if (std::ranges::all_of(chain.links, &OperatorChain::Link::optional))
      fail(table, "chain.operators", "all of its operators may be missing", "leave out the ? of one of them");
    state_->chains.push_back(std::move(chain));
  }

  void read_phase(const toml::table& table) {
    check_keys(table, {"phase", "section", "layers", "patterns"}, "phase.");
    Rule<PhaseAnnotation> rule;
    rule.value.phase = text(table, "phase", "phase.phase");
    check_listed(table, "phase.phase", rule.value.phase, {"F", "B", "I", "W"});
    if (table.contains("section")) rule.value.section = text(table, "section", "phase.section");
    if (table.contains("layers")) {
      const std::string order = text(table, "layers", "phase.layers");
      check_listed(table, "phase.layers", order, {"ascending", "descending"});
      rule.value.descending = order == "descending";
    }
    rule.patterns = patterns(table, "phase.patterns");
    state_->phases.push_back(std::move(rule));
  }

  void read_layer(const toml::table& table) {
    check_keys(table, {"patterns", "phase", "counted"}, "layer.");
    patterns(table, "layer.patterns");  // checks them
    LayerRule rule;
    if (table.contains("phase")) {
      rule.phase = text(table, "phase", "layer.phase");
      check_listed(table, "layer.phase", rule.phase, {"F", "B"});
    }
    rule.counted = truth(table, "counted", "layer.counted");
    if (error_) return;
    for (const std::string& text : texts(table, "patterns", "layer.patterns")) {
      rule.pattern = std::regex(text, regex_options | std::regex::icase);
      const bool number = rule.pattern.mark_count() == 1;
      if (!number && !rule.counted)
        fail(table, "layer.patterns", fmt::format("'{}' has not one group", text), "the group is the layer's number");
      state_->layers.push_back(rule);
    }
  }

  std::vector<Pattern> patterns(const toml::table& table, std::string_view key) {
    std::vector<Pattern> result;
    for (const std::string& pattern : texts(table, "patterns", key)) {
      if (pattern.size() > longest_pattern) {
        fail(table, key, fmt::format("a pattern has more than {} characters", longest_pattern),
             "split it into several");
        return result;
      }
      if (nests_repetitions(pattern)) {
        fail(table, key, fmt::format("'{}' repeats a group that repeats already", pattern),
             "its time can be exponential in a name: write [A-Za-z_:]* for ([A-Za-z_]+::)*");
        return result;
      }
      try {
        result.emplace_back(pattern);
      } catch (const std::regex_error&) {
        fail(table, key, fmt::format("'{}' is no regular expression", pattern),
             "ECMAScript as in JavaScript, without \\1; put \\ before a character that is meant as it stands");
      }
    }
    return result;
  }

  // Returns a key that is true or false, false where it is missing.
  bool truth(const toml::table& table, std::string_view key, std::string_view name) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return false;
    if (!node->is_boolean()) fail(*node, name, "expected true or false", "");
    return node->value_or(false);
  }

  std::string text(const toml::table& table, std::string_view key, std::string_view name) {
    const auto value = table[key].value_exact<std::string>();
    if (!value || value->empty()) fail(table, name, "expected a string that is not empty", "");
    return value.value_or("");
  }

  Names texts(const toml::table& table, std::string_view key, std::string_view name) {
    Names values;
    if (const toml::array* list = table[key].as_array()) {
      for (const toml::node& item : *list) {
        const auto value = item.value_exact<std::string>();
        if (value && !value->empty()) values.push_back(*value);
      }
      if (values.size() == list->size() && !values.empty()) return values;
    }
    fail(table, name, "expected a list of strings that are not empty", "");
    return {};
  }

  void check_keys(const toml::table& table, const Names& known, const std::string& prefix) {
    for (const auto& [key, node] : table) {
      if (std::ranges::find(known, key.str()) == known.end())
        fail(node, prefix + std::string(key.str()), "unknown key", suggestion(key.str(), known));
    }
  }

  void check_listed(const toml::node& node, std::string_view key, const std::string& value, const Names& known) {
    if (std::ranges::find(known, value) == known.end())
      fail(node, key, fmt::format("'{}' is not known", value), suggestion(value, known));
  }

  static std::string suggestion(std::string_view name, const Names& known) { return model::known_names(name, known); }

  void fail(const toml::node& node, std::string_view key, std::string message, std::string hint) {
    if (error_) return;
    error_ = Error{ErrorKind::input, std::move(message), path_, line_of(node), std::string(key), std::move(hint)};
  }

  const std::string& path_;
  std::unique_ptr<KernelClasses::State> state_ = std::make_unique<KernelClasses::State>();
  std::optional<Error> error_;
};

}  // namespace

KernelClasses::KernelClasses(std::unique_ptr<const State> state) : state_(std::move(state)) {}
KernelClasses::~KernelClasses() = default;
KernelClasses::KernelClasses(KernelClasses&& other) noexcept = default;
KernelClasses& KernelClasses::operator=(KernelClasses&& other) noexcept = default;

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
  const auto text = TRY(model::read_text_file(path));
  TRY(model::check_nesting(text, path));
  try {
    return ClassesReader(path).read(toml::parse(text, path));
  } catch (const toml::parse_error& failure) {
    const int line = static_cast<int>(failure.source().begin.line);
    return model::wrong_input_at(path, line, "", std::string(failure.description()));
  }
}

}  // namespace plumbline::calibrate
