//! PAM as a safe function. With `uring` and `heap` one of the crates that may be unsafe.
//!
//! libpam is loaded by `dlopen` when a password is to be checked, so the program runs on machines without it. Modules
//! of PAM may do anything to the process that they run in: the caller is a process that does nothing else
//! ([`authenticate`]).
//!
//! Why it is sound, in three sentences that the `unsafe` blocks refer to:
//!
//! 1. *The functions have the types that are written here.* They are those of Linux-PAM's `security/pam_appl.h`, which
//!    has not changed them since its first release.
//! 2. *Texts outlive the calls that read them.* They are [`CString`]s of the caller; libpam copies what it keeps.
//! 3. *What libpam frees comes from malloc.* Answers of the conversation are made by `calloc` and `strdup`.
//!
//! Source: pam_start(3), pam_conv(3), pam_authenticate(3), pam_acct_mgmt(3).

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

const LIBRARY: &CStr = c"libpam.so.0";

const PAM_SUCCESS: c_int = 0;
const PAM_BUF_ERR: c_int = 5;
const PAM_CONV_ERR: c_int = 19;
const PAM_RHOST: c_int = 4;
const PAM_PROMPT_ECHO_OFF: c_int = 1;
const PAM_SILENT: c_int = 0x8000;
/// The most messages that one call of the conversation may have (PAM_MAX_NUM_MSG).
const MAX_MESSAGES: c_int = 32;

#[repr(C)]
struct Message {
    style: c_int,
    text: *const c_char,
}

#[repr(C)]
struct Response {
    text: *mut c_char,
    code: c_int,
}

type Converse = unsafe extern "C" fn(c_int, *const *const Message, *mut *mut Response, *mut c_void) -> c_int;

#[repr(C)]
struct Conversation {
    converse: Converse,
    data: *mut c_void,
}

type Handle = *mut c_void;

type Start = unsafe extern "C" fn(*const c_char, *const c_char, *const Conversation, *mut Handle) -> c_int;
type SetItem = unsafe extern "C" fn(Handle, c_int, *const c_void) -> c_int;
type Step = unsafe extern "C" fn(Handle, c_int) -> c_int;
type Text = unsafe extern "C" fn(Handle, c_int) -> *const c_char;

/// The functions of libpam.
#[derive(Clone, Copy)]
struct Pam {
    start: Start,
    set_item: SetItem,
    authenticate: Step,
    acct_mgmt: Step,
    end: Step,
    strerror: Text,
}

/// Whether PAM's `service` accepts a user's password, for a client at `from`. Takes as long as its modules do, and
/// whatever they do happens to this process: to be called once, by a process that ends then.
///
/// # Errors
/// One line: the library can't be loaded, or what refused the user and why.
pub fn authenticate(service: &str, user: &str, password: &str, from: &str) -> Result<(), String> {
    let text = |text: &str| CString::new(text).map_err(|_| "a text for PAM holds a zero byte".to_owned());
    let (service, user, password, from) = (text(service)?, text(user)?, text(password)?, text(from)?);
    let pam = Pam::load()?;
    let conversation = Conversation { converse, data: password.as_ptr().cast_mut().cast() };
    let mut handle: Handle = ptr::null_mut();
    // SAFETY: 1; 2, the conversation and its password live until the handle is closed below.
    let code = unsafe { (pam.start)(service.as_ptr(), user.as_ptr(), &raw const conversation, &raw mut handle) };
    if code != PAM_SUCCESS {
        return Err(pam.error("pam_start", ptr::null_mut(), code));
    }
    let result = pam.check(handle, &from);
    // SAFETY: 1; the handle is open, and not used afterwards.
    unsafe { (pam.end)(handle, if result.is_ok() { PAM_SUCCESS } else { PAM_CONV_ERR }) };
    result
}

impl Pam {
    fn load() -> Result<Pam, String> {
        // SAFETY: the name is a C string; the library's initializers are those of libpam.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return Err(format!("{} can't be loaded: install PAM (Debian's libpam0g)", LIBRARY.to_string_lossy()));
        }
        let find = |name: &CStr| {
            // SAFETY: the library is open, and the name a C string.
            let found = unsafe { libc::dlsym(library, name.as_ptr()) };
            if found.is_null() { Err(format!("libpam has no {}", name.to_string_lossy())) } else { Ok(found) }
        };
        Ok(Pam {
            // SAFETY: 1.
            start: unsafe { std::mem::transmute::<*mut c_void, Start>(find(c"pam_start")?) },
            // SAFETY: 1.
            set_item: unsafe { std::mem::transmute::<*mut c_void, SetItem>(find(c"pam_set_item")?) },
            // SAFETY: 1.
            authenticate: unsafe { std::mem::transmute::<*mut c_void, Step>(find(c"pam_authenticate")?) },
            // SAFETY: 1.
            acct_mgmt: unsafe { std::mem::transmute::<*mut c_void, Step>(find(c"pam_acct_mgmt")?) },
            // SAFETY: 1.
            end: unsafe { std::mem::transmute::<*mut c_void, Step>(find(c"pam_end")?) },
            // SAFETY: 1.
            strerror: unsafe { std::mem::transmute::<*mut c_void, Text>(find(c"pam_strerror")?) },
        })
    }

    /// The password, then whether the account may be used now.
    fn check(self, handle: Handle, from: &CStr) -> Result<(), String> {
        // SAFETY: 1; 2.
        let code = unsafe { (self.set_item)(handle, PAM_RHOST, from.as_ptr().cast()) };
        self.judge("pam_set_item", handle, code)?;
        // SAFETY: 1.
        let code = unsafe { (self.authenticate)(handle, PAM_SILENT) };
        self.judge("pam_authenticate", handle, code)?;
        // SAFETY: 1.
        let code = unsafe { (self.acct_mgmt)(handle, PAM_SILENT) };
        self.judge("pam_acct_mgmt", handle, code)
    }

    fn judge(self, what: &str, handle: Handle, code: c_int) -> Result<(), String> {
        if code == PAM_SUCCESS { Ok(()) } else { Err(self.error(what, handle, code)) }
    }

    fn error(self, what: &str, handle: Handle, code: c_int) -> String {
        // SAFETY: 1; Linux-PAM does not look at the handle.
        let text = unsafe { (self.strerror)(handle, code) };
        if text.is_null() {
            return format!("{what}() failed: error {code}");
        }
        // SAFETY: it is a C string of the library's own.
        let text = unsafe { CStr::from_ptr(text) };
        format!("{what}() failed: {}", text.to_string_lossy())
    }
}

/// Answers what modules ask: each question that hides its answer gets the password, all others nothing.
unsafe extern "C" fn converse(
    count: c_int,
    messages: *const *const Message,
    responses: *mut *mut Response,
    password: *mut c_void,
) -> c_int {
    if !(1..=MAX_MESSAGES).contains(&count) || messages.is_null() || responses.is_null() || password.is_null() {
        return PAM_CONV_ERR;
    }
    let count = count as usize;
    // SAFETY: 3; the count is small, and the size that of the type.
    let answers: *mut Response = unsafe { libc::calloc(count, size_of::<Response>()) }.cast();
    if answers.is_null() {
        return PAM_BUF_ERR;
    }
    for index in 0..count {
        // SAFETY: Linux-PAM passes an array of `count` pointers.
        let message = unsafe { messages.add(index) };
        // SAFETY: as above.
        let message = unsafe { *message };
        // SAFETY: each of them points to a message, for as long as this call lasts.
        if unsafe { (*message).style } == PAM_PROMPT_ECHO_OFF {
            // SAFETY: 2, 3; the data is the password's C string.
            let copy = unsafe { libc::strdup(password.cast_const().cast()) };
            // SAFETY: there are `count` answers.
            let answer = unsafe { answers.add(index) };
            // SAFETY: as above. A copy that could not be made is no answer, which no module takes for a password.
            unsafe { (*answer).text = copy };
        }
    }
    // SAFETY: libpam passes a place for the answers, which it frees.
    unsafe { *responses = answers };
    PAM_SUCCESS
}
