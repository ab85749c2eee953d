// What one page gives the next and the address bar must not show: a database's address may have a password.

export const handover = { address: '' };
