// FOR_EACH(macro, a, b, c) is macro(a) macro(b) macro(c): what holds for fields whose key is their name is written
// once.
#pragma once

namespace plumbline::model {

#define PLUMBLINE_EXPAND(...) PLUMBLINE_EXPAND3(PLUMBLINE_EXPAND3(PLUMBLINE_EXPAND3(__VA_ARGS__)))
#define PLUMBLINE_EXPAND3(...) PLUMBLINE_EXPAND2(PLUMBLINE_EXPAND2(PLUMBLINE_EXPAND2(__VA_ARGS__)))
#define PLUMBLINE_EXPAND2(...) PLUMBLINE_EXPAND1(PLUMBLINE_EXPAND1(PLUMBLINE_EXPAND1(__VA_ARGS__)))
#define PLUMBLINE_EXPAND1(...) __VA_ARGS__
#define PLUMBLINE_PARENTHESES ()
#define PLUMBLINE_ONE(macro, name, ...) macro(name) __VA_OPT__(PLUMBLINE_NEXT PLUMBLINE_PARENTHESES(macro, __VA_ARGS__))
#define PLUMBLINE_NEXT() PLUMBLINE_ONE
#define FOR_EACH(macro, ...) PLUMBLINE_EXPAND(PLUMBLINE_ONE(macro, __VA_ARGS__))

}  // namespace plumbline::model
