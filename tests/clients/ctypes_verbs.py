#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A program that knows libibverbs only by dlopen() and dlsym(): each device is opened, and some
memory registered there. Prints the devices' names."""
import ctypes

IBV_ACCESS_LOCAL_WRITE = 1

verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)
for name, result in (("ibv_get_device_list", ctypes.POINTER(ctypes.c_void_p)),
                     ("ibv_get_device_name", ctypes.c_char_p), ("ibv_open_device", ctypes.c_void_p),
                     ("ibv_alloc_pd", ctypes.c_void_p), ("ibv_reg_mr", ctypes.c_void_p)):
    getattr(verbs, name).restype = result


def need(value, what):
    if not value:
        raise OSError(ctypes.get_errno(), what)
    return ctypes.c_void_p(value)


count = ctypes.c_int()
devices = verbs.ibv_get_device_list(ctypes.byref(count))
memory = ctypes.create_string_buffer(8192)
for i in range(count.value):
    device = ctypes.c_void_p(devices[i])
    context = need(verbs.ibv_open_device(device), "ibv_open_device")
    pd = need(verbs.ibv_alloc_pd(context), "ibv_alloc_pd")
    mr = need(verbs.ibv_reg_mr(pd, memory, ctypes.c_size_t(len(memory)), IBV_ACCESS_LOCAL_WRITE),
              "ibv_reg_mr")
    for verb, what in (("ibv_dereg_mr", mr), ("ibv_dealloc_pd", pd), ("ibv_close_device", context)):
        if getattr(verbs, verb)(what):
            raise OSError(ctypes.get_errno(), verb)
    print(verbs.ibv_get_device_name(device).decode())
