// Where model files meet Python: file_map.h and string_array.h.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>

#include "bindings.h"
#include "file_map.h"
#include "string_array.h"

#include <cerrno>
#include <system_error>

namespace nb = nanobind;

namespace bankml {

namespace {

void bind_file_map(nb::module_ & m) {
    nb::class_<FileMap>(m, "FileMap")
        .def(
            "__init__",
            [](FileMap * self, int descriptor) {
                try {
                    new (self) FileMap(descriptor);
                } catch (const std::system_error & error) {
                    errno = error.code().value();
                    PyErr_SetFromErrno(PyExc_OSError);
                    throw nb::python_error();
                }
            },
            nb::arg("descriptor"))
        .def_prop_ro("bytes",
                     [](const nb::typed<nb::object, FileMap> & self) {
                         const FileMap & map = nb::cast<const FileMap &>(self);
                         return nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>>(map.data(), {map.size()}, self);
                     })
        .def_prop_ro("intact", &FileMap::intact)
        .def("release", &FileMap::release);
}

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::list decoded_strings(const Bytes & bytes) {
    nb::list texts;
    StringArray strings(bytes.data(), bytes.size());
    while (const std::optional<std::string_view> text = strings.next()) {
        PyObject * decoded = PyUnicode_DecodeUTF8(text->data(), static_cast<Py_ssize_t>(text->size()), nullptr);
        if (decoded == nullptr) {
            throw nb::python_error();
        }
        texts.append(nb::steal(decoded));
    }
    return texts;
}

void bind_string_array(nb::module_ & m) {
    m.def(
        "skip_strings",
        [](const Bytes & bytes, size_t count) { return skip_strings(bytes.data(), bytes.size(), count); },
        nb::arg("bytes"), nb::arg("count"));
    m.def("decoded_strings", decoded_strings, nb::arg("bytes"));
}

}  // namespace

void bind_files(nb::module_ & m) {
    bind_file_map(m);
    bind_string_array(m);
}

}  // namespace bankml
