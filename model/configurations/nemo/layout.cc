// Layouts of pipeline stages as recipes of Megatron-Bridge have them: lists of what each stage holds, which stand in
// the recipe or, by stages and chunks of a rank, in a dictionary of a function that it calls
// (recipes/kimi/h100/kimi_k2.py
// @0cabbd55, recipes/deepseek/h100/deepseek_v3.py @0edb6699). They become the words of Megatron's argument.
#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/text.h"
#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {
namespace {

constexpr std::string_view kLayout = "model.pipeline_model_parallel_layout";
constexpr std::size_t kMostItems = 10'000;

// A list, or a word of one.
struct Item {
  std::string word;
  std::vector<Item> items;
};

// Returns Megatron's letter of what a stage holds; nothing where it has none.
std::optional<char> letter_of(std::string_view word) {
  constexpr std::pair<std::string_view, char> letters[] = {
      {"embedding", 'E'}, {"decoder", 't'}, {"mtp", 'm'}, {"loss", 'L'}};
  const auto* found = std::ranges::find(letters, word, &std::pair<std::string_view, char>::first);
  return found == std::end(letters) ? std::nullopt : std::optional(found->second);
}

// Returns the layout of stages as Megatron's argument has it: "Ett|tt|tL".
std::optional<std::string> words_of(const std::vector<std::vector<std::string>>& stages) {
  std::string layout;
  for (const auto& stage : stages) {
    if (&stage != &stages.front()) layout += '|';
    for (const std::string& word : stage) {
      const auto letter = letter_of(word);
      if (!letter) return std::nullopt;
      layout += *letter;
    }
  }
  return stages.empty() ? std::nullopt : std::optional(layout);
}

// Reads lists of strings that are added and multiplied. A name is the list that the text before assigns to it. What a
// name multiplies is taken once, which holds for prediction modules, whose number the model has.
class LayoutReader {
 public:
  LayoutReader(std::string_view text, std::size_t at) : text_(text), at_(at) {}

  std::optional<std::string> read() {
    const auto list = sum(0);
    if (!list) return std::nullopt;
    std::vector<std::vector<std::string>> stages;
    for (const Item& stage : list->items) {
      auto& words = stages.emplace_back();
      for (const Item& one : stage.items) words.push_back(one.word);
    }
    return words_of(stages);
  }

 private:
  char letter() {
    for (; at_ < text_.size() && (text_[at_] == '#' || std::isspace(static_cast<unsigned char>(text_[at_])) != 0);
         ++at_)
      if (text_[at_] == '#') at_ = std::min(text_.find('\n', at_), text_.size() - 1);
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool takes(char wanted) {
    const bool is = letter() == wanted;
    if (is) ++at_;
    return is;
  }
  std::string_view name() {
    letter();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (text_[at_] == '_' || std::isalnum(static_cast<unsigned char>(text_[at_])) != 0))
      ++at_;
    return text_.substr(begin, at_ - begin);
  }

  std::optional<Item> sum(int depth) {
    auto left = product(depth);
    while (left && takes('+')) {
      auto right = product(depth);
      if (!right || left->items.size() + right->items.size() > kMostItems) return std::nullopt;
      std::ranges::move(right->items, std::back_inserter(left->items));
    }
    return left;
  }

  std::optional<Item> product(int depth) {
    auto list = primary(depth);
    while (list && takes('*')) {
      const std::string_view factor = name();
      const auto times = parse_number<std::size_t>(factor);
      const bool layers = std::ranges::any_of(list->items, [](const Item& one) { return one.word != "mtp"; });
      if (factor.empty() || (!times && layers) || times.value_or(1) * list->items.size() > kMostItems)
        return std::nullopt;
      const std::vector<Item> once = list->items;
      if (times == 0) list->items.clear();
      for (std::size_t i = 1; i < times.value_or(1); ++i) std::ranges::copy(once, std::back_inserter(list->items));
    }
    return list;
  }

  std::optional<Item> primary(int depth) {
    if (depth > 8) return std::nullopt;
    if (const char quote = letter(); quote == '"' || quote == '\'') {
      const std::size_t end = text_.find(quote, at_ + 1);
      if (end == std::string_view::npos) return std::nullopt;
      Item word{std::string(text_.substr(at_ + 1, end - at_ - 1)), {}};
      at_ = end + 1;
      return word;
    }
    if (takes('(')) {
      auto inner = sum(depth + 1);
      return takes(')') ? inner : std::nullopt;
    }
    if (takes('[')) {
      Item list;
      while (letter() != ']') {
        auto one = sum(depth + 1);
        if (!one || (!takes(',') && letter() != ']')) return std::nullopt;
        list.items.push_back(std::move(*one));
      }
      ++at_;
      return list;
    }
    const std::string_view named = name();
    const std::size_t assigned = named.empty() ? std::string_view::npos : text_.rfind(std::string(named) + " = [", at_);
    if (assigned == std::string_view::npos) return std::nullopt;
    const std::size_t back = std::exchange(at_, assigned + named.size() + 3);
    auto list = sum(depth + 1);
    at_ = back;
    return list;
  }

  std::string_view text_;
  std::size_t at_;
};

// A function of a file with its lines.
struct Function {
  std::string_view name, text;
  int first = 0, last = 0;
};

std::vector<Function> functions_of(std::string_view text) {
  std::vector<Function> functions;
  std::size_t at = 0;
  int line = 0;
  for (const std::string_view one : lines_of(text)) {
    ++line;
    if (one.starts_with("def "))
      functions.push_back({one.substr(4, one.find('(') - 4), text.substr(at, 0), line, line});
    // A function ends with the last line that is indented, or closes its parameters.
    const bool inside = one.starts_with(' ') || one.starts_with("def ") || one.starts_with(')');
    if (!functions.empty() && inside) {
      Function& last = functions.back();
      last.text = std::string_view(last.text.data(),
                                   at + one.size() - static_cast<std::size_t>(last.text.data() - text.data()));
      last.last = line;
    }
    at += one.size() + 1;
  }
  return functions;
}

// Returns the layout of the dictionary of a function for that many stages of ranks and chunks of each.
std::optional<std::string> layout_of(const Function& function, std::string_view stages, std::string_view chunks) {
  const std::string key = fmt::format("({}, {}):", stages, chunks);
  const std::size_t at = function.text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  return LayoutReader(function.text, at + key.size()).read();
}

void replace_layout(Configuration& read, std::string layout, int line) {
  const std::string key(kLayout);
  std::erase_if(read.entries, [&key](const Entry& one) { return one.key.starts_with(key); });
  read.entries.push_back({key, key, std::move(layout), {}, line});
}

// Takes a layout that is written out, as dumps have it: one entry for each stage.
void take_written(Configuration& read) {
  std::vector<std::vector<std::string>> stages;
  int line = 0;
  for (const Entry& one : read.entries) {
    if (one.key != std::string(kLayout) + "[]") continue;
    if (one.unread) return;
    if (stages.empty()) line = one.line;
    stages.push_back(one.items);
  }
  if (auto layout = words_of(stages)) replace_layout(read, std::move(*layout), line);
}

}  // namespace

void read_layout(Configuration& read, std::string_view text) {
  take_written(read);
  const Entry* recipe = read.find("def");
  if (recipe == nullptr) return;
  const std::vector<Function> functions = functions_of(text);
  const auto found = std::ranges::find(functions, std::string_view(recipe->value), &Function::name);
  if (found == functions.end()) return;
  constexpr std::string_view assigns = "pipeline_model_parallel_layout = [";
  if (const std::size_t at = found->text.rfind(assigns); at != std::string_view::npos) {
    const auto line = found->first + static_cast<int>(std::ranges::count(found->text.substr(0, at), '\n'));
    if (auto layout = LayoutReader(found->text, at + assigns.size() - 1).read())
      return replace_layout(read, std::move(*layout), line);
  }
  const auto degree = [&read](const char* key) {
    const Entry* stated = read.find(key);
    return stated == nullptr || stated->is_null() ? std::string("1") : stated->value;
  };
  for (const Function& one : functions) {
    const std::size_t call = found->text.find(std::string(one.name) + "(");
    if (one.name.find("layout") == std::string_view::npos || call == std::string_view::npos) continue;
    // Arguments beyond the model and the degrees choose another layout than that of the dictionary.
    const std::string_view arguments = found->text.substr(call, found->text.find('\n', call) - call);
    auto layout = layout_of(one, degree("model.pipeline_model_parallel_size"),
                            degree("model.virtual_pipeline_model_parallel_size"));
    if (!layout || arguments.find('=') != std::string_view::npos) continue;
    std::erase_if(read.entries, [&one](const Entry& entry) {
      return entry.key.starts_with('\'') && entry.line >= one.first && entry.line <= one.last;
    });
    const auto line = found->first + static_cast<int>(std::ranges::count(found->text.substr(0, call), '\n'));
    return replace_layout(read, std::move(*layout), line);
  }
}

}  // namespace plumbline::model::configurations
