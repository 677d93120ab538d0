// Turns the few things of CUDA C++ into C++ that a header cannot: dynamic
// shared memory, PTX in `asm`, and the list of the kernels in a source.
#include "source.h"

#include <cctype>
#include <cstring>
#include <regex>
#include <vector>

namespace {

bool part_of_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

size_t skip_space(const std::string &s, size_t at) {
    while (at < s.size() && isspace((unsigned char)s[at]))
        at++;
    return at;
}

// The place after the parenthesis that closes the one at `at`.
size_t after_parentheses(const std::string &s, size_t at) {
    int depth = 0;
    for (bool text = false; at < s.size(); at++) {
        if (text && s[at] == '\\')
            at++;
        else if (s[at] == '"')
            text = !text;
        else if (!text && s[at] == '(')
            depth++;
        else if (!text && s[at] == ')' && --depth == 0)
            return at + 1;
    }
    return s.size();
}

std::string trim(const std::string &s) {
    size_t begin = s.find_first_not_of(" \t\r\n");
    if (begin == std::string::npos)
        return "";
    return s.substr(begin, s.find_last_not_of(" \t\r\n") - begin + 1);
}

// The text of the string literals in `s`, one after the other.
std::string literal(const std::string &s) {
    std::string out;
    bool text = false;
    for (size_t i = 0; i < s.size(); i++) {
        if (s[i] == '"')
            text = !text;
        else if (text && s[i] == '\\' && i + 1 < s.size())
            out += s[++i] == 'n' || s[i] == 't' ? ' ' : s[i];
        else if (text)
            out += s[i];
    }
    return out;
}

// `asm`'s parts between colons.
std::vector<std::string> sections(const std::string &s) {
    std::vector<std::string> out(1);
    int depth = 0;
    bool text = false;
    for (size_t i = 0; i < s.size(); i++) {
        char c = s[i];
        if (text && c == '\\') {
            out.back() += c;
            c = s[++i];
        } else if (c == '"') {
            text = !text;
        } else if (!text && (c == '(' || c == ')')) {
            depth += c == '(' ? 1 : -1;
        } else if (!text && depth == 0 && c == ':') {
            out.emplace_back();
            continue;
        }
        out.back() += c;
    }
    return out;
}

// The expressions in `"=r"(a), "=r"(b)`.
void operands(const std::string &s, std::vector<std::string> &out) {
    for (size_t at = s.find('('); at != std::string::npos; at = s.find('(', at)) {
        size_t end = after_parentheses(s, at);
        out.push_back(s.substr(at, end - at));
        at = end;
    }
}

// One instruction as a call of the function that does it.
std::string instruction(const std::string &ptx, const std::vector<std::string> &values) {
    size_t end = ptx.find_first_of(" \t");
    std::string name = ptx.substr(0, end), call = "ptx_";
    for (size_t i = 0; i < name.size(); i++) {
        if (name.compare(i, 2, "::") == 0)
            i++;
        call += part_of_name(name[i]) ? name[i] : '_';
    }
    call += "(__LINE__";
    std::string rest = end == std::string::npos ? "" : trim(ptx.substr(end));
    if (!rest.empty())
        call += ", ";
    for (size_t i = 0; i < rest.size(); i++) {
        if (rest[i] == '%' && isdigit((unsigned char)rest[i + 1])) {
            size_t number = 0;
            while (isdigit((unsigned char)rest[i + 1]))
                number = number * 10 + (rest[++i] - '0');
            call += number < values.size() ? values[number] : "ptx_no_such_operand";
        } else if (!strchr("{}[]", rest[i])) {
            call += rest[i];
        }
    }
    return call + ");";
}

std::string assembly(const std::string &inside) {
    std::vector<std::string> parts = sections(inside);
    std::vector<std::string> values;
    for (size_t i = 1; i < 3 && i < parts.size(); i++)
        operands(parts[i], values);
    std::string ptx = literal(parts[0]), out = "{ ";
    for (size_t at = 0; at < ptx.size();) {
        size_t end = std::min(ptx.find(';', at), ptx.size());
        std::string one = trim(ptx.substr(at, end - at));
        if (!one.empty() && one[0] == '{')
            one = trim(one.substr(1));
        if (!one.empty() && one != "}")
            out += instruction(one, values) + " ";
        at = end + 1;
    }
    return out + "}";
}

std::string without_asm(const std::string &s) {
    std::string out;
    for (size_t i = 0; i < s.size();) {
        bool here = s.compare(i, 3, "asm") == 0 && (i == 0 || !part_of_name(s[i - 1])) &&
                    !part_of_name(s[i + 3]);
        if (here) {
            size_t at = skip_space(s, i + 3);
            if (s.compare(at, 8, "volatile") == 0)
                at = skip_space(s, at + 8);
            if (s[at] == '(') {
                size_t end = after_parentheses(s, at);
                out += assembly(s.substr(at + 1, end - at - 2));
                i = end;
                continue;
            }
        }
        out += s[i++];
    }
    return out;
}

std::vector<std::string> kernels(const std::string &s) {
    std::vector<std::string> names;
    const std::string mark = "__global__";
    for (size_t at = s.find(mark); at != std::string::npos; at = s.find(mark, at)) {
        at += mark.size();
        while (at < s.size()) {
            at = skip_space(s, at);
            size_t begin = at;
            while (at < s.size() && part_of_name(s[at]))
                at++;
            std::string name = s.substr(begin, at - begin);
            at = skip_space(s, at);
            if (s[at] == '(' && name.compare(0, 2, "__") != 0) {
                names.push_back(name);
                break;
            }
            if (s[at] == '(')
                at = after_parentheses(s, at);
            else if (at == begin)
                break;
        }
    }
    return names;
}

} // namespace

std::string host_source(const std::string &source, unsigned arch) {
    static const std::regex dynamic_shared(
        R"(extern\s+__shared__\s+(?:__align__\(\d+\)\s*)?([A-Za-z_][\w:<> ]*?)\s+(\w+)\s*\[\s*\]\s*;)");
    // Where a GPU's integers differ from the host's: see `intrinsics.h`.
    static const std::regex cast(R"(= (u?int\d+_t)\((\w+)\);)");
    static const std::regex divide(R"(= (\w+) / (\w+);)");
    static const std::regex rest(R"(= (\w+) % (\w+);)");
    static const std::regex active(R"(_sync\(__activemask\(\))");
    std::string body = std::regex_replace(
        source, dynamic_shared, "$1 *const $2 = reinterpret_cast<$1 *>(emu_shared);");
    body = std::regex_replace(body, active, "_sync(~0u");
    body = std::regex_replace(body, cast, "= emu_cast<$1>($2);");
    body = std::regex_replace(body, divide, "= emu_divide($1, $2);");
    body = std::regex_replace(body, rest, "= emu_rest($1, $2);");
    body = without_asm(body);
    std::string out = "#define __CUDA_ARCH__ " + std::to_string(arch) + "\n#line 1\n" + body + "\n";
    for (const std::string &name : kernels(body))
        out += "EMU_KERNEL(" + name + ")\n";
    return out;
}
