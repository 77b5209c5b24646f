//! Code that is written once for many: the setters of builders, and the methods that every wrapper of an agent passes on.

/// Methods of a builder that set one thing and give the builder back. The builder itself is `#[must_use]`.
macro_rules! setters {
    ($( $(#[$doc:meta])* $name:ident($value:ident: $type:ty) => $($field:ident).+ = $to:expr; )*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, $value: $type) -> Self {
            self.$($field).+ = $to;
            self
        }
    )*};
}

/// Calls `$each` with the methods of `Agent` that are passed on as they are, whoever stands in front of it.
macro_rules! agent_methods {
    ($each:ident) => {
        $each! {
            hello(hello: InitializeRequest) -> Result<()>;
            list(request: ListRequest) -> Result<Option<ListResponse>>;
            delete(id: SessionId) -> Result<()>;
            initialized(client: ClientHandle) -> ();
            login(method_id: String, client: ClientHandle) -> Result<()>;
            logout(client: ClientHandle) -> Result<()>;
            extension(method: String, params: Raw, client: ClientHandle) -> Result<Raw>;
            extension_notification(method: String, params: Raw, client: ClientHandle) -> ();
        }
    };
}
