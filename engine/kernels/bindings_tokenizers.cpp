// Where the tokenizers meet Python: vocabulary.h, bpe.h, spm.h and the classes of pretokenizer.h.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "bpe.h"
#include "spm.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace bankml {

namespace {

template <typename T>
using Row = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The UTF-8 of a str, kept by the str itself.
std::string_view utf8_of(nb::handle text) {
    Py_ssize_t size = 0;
    const char * data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (data == nullptr) {
        throw nb::python_error();
    }
    return {data, static_cast<size_t>(size)};
}

std::vector<std::string_view> views_of(nb::list texts) {
    std::vector<std::string_view> views;
    views.reserve(texts.size());
    for (nb::handle text : texts) {
        views.push_back(utf8_of(text));
    }
    return views;
}

std::vector<std::string> strings_of(nb::list texts) {
    const std::vector<std::string_view> views = views_of(std::move(texts));
    return {views.begin(), views.end()};
}

template <typename T>
std::vector<T> vector_of(const Row<T> & row) {
    return {row.data(), row.data() + row.size()};
}

nb::list list_of(const std::vector<int32_t> & numbers) {
    nb::list list = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(numbers.size())));
    for (size_t i = 0; i < numbers.size(); ++i) {
        PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLong(numbers[i]));
    }
    return list;
}

void bind_vocabulary(nb::module_ & m) {
    nb::class_<Vocabulary>(m, "Vocabulary")
        .def("set_attributes",
             [](Vocabulary & self, Row<uint16_t> attributes) { self.set_attributes(vector_of(attributes)); })
        .def("encode",
             [](const Vocabulary & self, nb::str text, bool parse_special) {
                 const std::string_view bytes = utf8_of(text);
                 std::vector<int32_t> tokens;
                 {
                     nb::gil_scoped_release release;
                     tokens = self.encode(bytes, parse_special);
                 }
                 return list_of(tokens);
             })
        .def("piece",
             [](const Vocabulary & self, int32_t token, bool special) {
                 const std::string bytes = self.piece(token, special);
                 return nb::bytes(bytes.data(), bytes.size());
             })
        .def("decode",
             [](const Vocabulary & self, const std::vector<int32_t> & tokens, bool special) {
                 std::string bytes;
                 for (const int32_t token : tokens) {
                     bytes += self.piece(token, special);
                 }
                 return nb::bytes(bytes.data(), bytes.size());
             })
        .def("find", [](const Vocabulary & self, nb::str text) { return self.find(utf8_of(text)); })
        .def("in_map_order", [](const Vocabulary & self, nb::list texts) {
            return list_of(self.in_map_order(views_of(std::move(texts))));
        });
}

void bind_bpe(nb::module_ & m) {
    nb::class_<Bpe, Vocabulary>(m, "Bpe")
        .def("__init__",
             [](Bpe * self, nb::list tokens, nb::list merges, const std::vector<std::string> & splitters,
                bool ignore_merges) {
                 new (self) Bpe(strings_of(std::move(tokens)), views_of(std::move(merges)), splitters, ignore_merges);
             })
        .def("split", [](const Bpe & self, nb::str text) {
            nb::list words;
            for (const std::string_view word : self.split(utf8_of(text))) {
                words.append(nb::str(word.data(), word.size()));
            }
            return words;
        });
    m.def("char_classes",
          [] { return nb::bytes(reinterpret_cast<const char*>(char_classes()), kCodePoints); });
}

void bind_spm(nb::module_ & m) {
    nb::class_<Spm, Vocabulary>(m, "Spm").def(
        "__init__", [](Spm * self, nb::list tokens, Row<float> scores, bool add_space_prefix) {
            new (self) Spm(strings_of(std::move(tokens)), vector_of(scores), add_space_prefix);
        });
}

}  // namespace

void bind_tokenizers(nb::module_ & m) {
    bind_vocabulary(m);
    bind_bpe(m);
    bind_spm(m);
}

}  // namespace bankml
