#include "model/megatron/shell/detail/parameter.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "model/megatron/shell/arithmetic.h"
#include "model/megatron/shell/detail/patterns.h"
#include "model/megatron/shell/detail/scan.h"

namespace plumbline::model::megatron {
namespace {

class ParameterReader {
 public:
  ParameterReader(const Letters& inside, Scope& scope) : text_(inside), scope_(scope) {}

  Parameter read() {
    length_ = text_.size() > 1 && text_[0].symbol == '#';
    const bool indirect = text_.size() > 1 && text_[0].symbol == '!';
    if (length_ || indirect) ++at_;
    take_name();
    if (name_.empty()) return {};
    take_key();
    if (indirect && !follow()) return {};
    find();
    if (length_) return length();
    return operate();
  }

 private:
  char symbol() const { return at_ < text_.size() ? text_[at_].symbol : '\0'; }

  void take_name() {
    const bool special = std::string_view("@*#?").find(symbol()) != std::string_view::npos && symbol() != '\0';
    if (special) {
      name_ = symbol() == '*' ? '@' : symbol();
      all_ = name_ == "@";
      joined_ = symbol() == '*';
      ++at_;
      return;
    }
    while (in_name(symbol())) name_ += text_[at_++].symbol;
  }

  void take_key() {
    if (symbol() != '[') return;
    const std::size_t first = at_ + 1;
    at_ = Scan(text_).brackets(at_, '[', ']');
    const Letters key = slice(text_, first, std::max(at_, first + 1) - 1);
    const std::string written = text_of(key);
    all_ = written == "@" || written == "*";
    joined_ = written == "*";
    if (!all_) element_ = element(name_, key, scope_);
  }

  // ${!NAME}: the variable whose name is the value.
  bool follow() {
    const Fields* value = scope_.find(name_);
    if (value == nullptr || value->empty() || !is_known(value->front())) {
      scope_.miss(name_);
      return false;
    }
    name_ = text_of(value->front());
    return !name_.empty();
  }

  // Finds the fields of the name; a scalar has its first one.
  void find() {
    const Fields* value = scope_.find(element_.empty() ? name_ : element_);
    if (value != nullptr) {
      fields_ = *value;
      if (!all_ && fields_->size() > 1) fields_->resize(1);
    } else if (!element_.empty()) {
      find_in_list();
    } else if (name_ == "@") {
      fields_ = Fields();
    }
  }

  void find_in_list() {
    const Fields* list = scope_.find(name_);
    const auto index = integer(element_.substr(name_.size() + 1, element_.size() - name_.size() - 2));
    if (list == nullptr || !index) return;
    const auto size = static_cast<std::int64_t>(list->size());
    const std::int64_t at = *index < 0 ? size + *index : *index;
    fields_ = Fields();
    if (at >= 0 && at < size) fields_->push_back((*list)[static_cast<std::size_t>(at)]);
  }

  bool known() const { return fields_ && std::ranges::all_of(*fields_, is_known); }
  bool empty() const { return fields_ && std::ranges::all_of(*fields_, &Letters::empty); }

  Parameter result() {
    if (!known()) scope_.miss(name_);
    return {fields_, joined_, false};
  }
  static Parameter made(const std::string& text) { return {Fields{letters_of(text, 0)}, false, true}; }

  Parameter length() {
    if (!known()) {
      scope_.miss(name_);
      return {};
    }
    return made(std::to_string(all_ ? fields_->size() : fields_->empty() ? 0 : fields_->front().size()));
  }

  Parameter operate() {
    if (at_ == text_.size()) return result();
    const bool or_empty = symbol() == ':' && at_ + 1 < text_.size() &&
                          std::string_view("-=?+").find(text_[at_ + 1].symbol) != std::string_view::npos;
    if (or_empty) ++at_;
    const char sign = symbol();
    if (std::string_view("-=?+").find(sign) != std::string_view::npos) {
      argument_ = slice(text_, at_ + 1, text_.size());
      const bool missing = !fields_ || fields_->empty() || (or_empty && empty());
      return default_of(sign, missing);
    }
    if (!known()) return unknown();
    if (sign == '#' || sign == '%') return trim(sign);
    if (sign == '/') return replace();
    if (sign == '^' || sign == ',') return change_case(sign == '^');
    if (sign == ':') return part();
    return {};
  }

  // An operation on a value that is not known is kept as it is written.
  Parameter unknown() {
    scope_.miss(name_);
    return {};
  }

  Parameter default_of(char sign, bool missing) {
    if (sign == '+') {
      if (!fields_) scope_.take_default(name_, "", line());
      return missing ? Parameter{Fields()} : given();
    }
    if (!missing || sign == '?') return result();
    Parameter taken = given();
    if (!fields_) {
      std::string text;
      for (const Letters& field : *taken.fields) text += text_of(field);
      scope_.take_default(name_, text, line());
    }
    if (sign == '=')
      scope_.assign(element_.empty() ? name_ : element_, taken.fields->empty() ? Fields(1) : *taken.fields);
    return taken;
  }
  int line() const { return text_.empty() ? 0 : text_.front().line; }

  // The word behind the operator, with its quotes removed.
  Parameter given() { return {read_word(argument_, false, scope_).fields, false, true}; }

  Parameter trim(char sign) {
    const bool twice = at_ + 1 < text_.size() && text_[at_ + 1].symbol == sign;
    const Letters pattern = read_field(slice(text_, at_ + (twice ? 2 : 1), text_.size()), scope_);
    if (!is_known(pattern)) return {};
    for (Letters& field : *fields_)
      field = trimmed(field, twice ? std::string(2, sign) : std::string(1, sign), pattern);
    return result();
  }

  Parameter replace() {
    const bool all = at_ + 1 < text_.size() && text_[at_ + 1].symbol == '/';
    at_ += all ? 2 : 1;
    std::size_t end = at_;
    while (end < text_.size() && text_[end].symbol != '/') end += text_[end].symbol == '\\' ? 2 : 1;
    end = std::min(end, text_.size());
    const Letters pattern = read_field(slice(text_, at_, end), scope_);
    const Letters with = end < text_.size() ? read_field(slice(text_, end + 1, text_.size()), scope_) : Letters();
    if (!is_known(pattern)) return {};
    for (Letters& field : *fields_) field = replaced(field, pattern, with, all);
    return result();
  }

  Parameter change_case(bool upper) {
    const bool all = at_ + 1 < text_.size() && text_[at_ + 1].symbol == text_[at_].symbol;
    for (Letters& field : *fields_) {
      for (std::size_t i = 0; i < field.size() && (all || i == 0); ++i) {
        const auto symbol = static_cast<unsigned char>(field[i].symbol);
        field[i].symbol = static_cast<char>(upper ? std::toupper(symbol) : std::tolower(symbol));
      }
    }
    return result();
  }

  // :FROM:LENGTH, of letters or of the elements of a list.
  Parameter part() {
    const Letters rest = slice(text_, at_ + 1, text_.size());
    const auto colon = std::ranges::find(rest, ':', &Letter::symbol);
    const auto from = read_number({rest.begin(), colon}, scope_);
    const auto count =
        colon == rest.end() ? std::optional<std::int64_t>(1'000'000'000) : read_number({colon + 1, rest.end()}, scope_);
    if (!from || !count || *count < 0) return {};
    const auto cut = [&](auto& of) {
      const auto size = static_cast<std::int64_t>(of.size());
      const std::int64_t first = std::clamp<std::int64_t>(*from < 0 ? size + *from : *from, 0, size);
      const std::int64_t last = first + std::min(*count, size - first);
      of = {of.begin() + first, of.begin() + last};
    };
    if (name_ == "@" && *from > 0) {  // counted from 1
      if (static_cast<std::size_t>(*from) > fields_->size())
        fields_->clear();
      else
        fields_->erase(fields_->begin(), fields_->begin() + (*from - 1));
      if (static_cast<std::int64_t>(fields_->size()) > *count) fields_->resize(static_cast<std::size_t>(*count));
    } else if (all_) {
      cut(*fields_);
    } else if (!fields_->empty()) {
      cut(fields_->front());
    }
    return result();
  }

  const Letters& text_;
  Scope& scope_;
  std::size_t at_ = 0;
  std::string name_, element_;
  bool length_ = false, all_ = false, joined_ = false;
  std::optional<Fields> fields_;
  Letters argument_;
};

}  // namespace

Parameter read_parameter(const Letters& inside, Scope& scope) { return ParameterReader(inside, scope).read(); }

std::string element(const std::string& name, const Letters& key, Scope& scope) {
  std::string text = text_of(read_field(key, scope));
  const bool formula = !text.empty() && std::ranges::all_of(text, [](char symbol) {
    return in_name(symbol) || std::string_view("+-*/% ()").find(symbol) != std::string_view::npos;
  });
  // A name or a formula is a number in a list, and itself as the key of an associative array.
  const Fields* value = begins_name(text.empty() ? ' ' : text[0]) ? scope.find(text) : nullptr;
  const bool named = value != nullptr && scope.find(name) != nullptr;
  const bool computed = text.find_first_of("+*/%") != std::string::npos;
  if (formula && (named || computed)) {
    if (const auto number = read_number(letters_of(text, 0), scope)) text = std::to_string(*number);
  }
  return name + "[" + text + "]";
}

}  // namespace plumbline::model::megatron
